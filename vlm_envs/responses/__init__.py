"""Prompts and response formats, and the parsing and scoring of model responses."""
