"""Tools an agent calls by name: coordinates, named stores, zoom, super-resolution, page retrieval, one registry.

Nothing here is imported by `import vlm_envs`. Modules that need more than the core say so when they are imported or
used, by an `EngineUnavailableError` that names the extra `tools`.
"""
