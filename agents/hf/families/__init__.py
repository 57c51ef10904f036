"""Families of vision-language models: how each takes pictures, places tokens and gives hidden states."""
