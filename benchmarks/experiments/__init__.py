"""Experiments: variants of a recipe, trained over several seeds and compared in tables and figures."""
