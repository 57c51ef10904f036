"""Models behind an endpoint: the client with its limits, cache, retries, usage and cost."""
