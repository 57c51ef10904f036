"""Agents that are transformers vision-language models: chat encoding, cached sampling, the embedded tiny VLM."""
