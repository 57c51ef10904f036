"""Kinds of things that scenes hold and questions ask about."""
