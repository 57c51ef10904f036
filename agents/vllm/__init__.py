"""A checkpoint that is sampled with vLLM: in this process, in another one, or on a server."""
