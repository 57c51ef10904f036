"""Tools an agent calls by name: coordinates, named stores, zoom, super-resolution, page retrieval, and a registry.

`import vlm_envs` imports none of this. Modules that need more than the core raise `EngineUnavailableError`,
which names the extra `tools`, when they are imported or used.
"""
