"""A checkpoint that is sampled with vLLM: in this process or on a server."""
