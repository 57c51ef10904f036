"""Experiments: variants of a recipe, trained over several seeds, compared in tables and figures."""
