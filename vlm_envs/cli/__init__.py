"""The command line: `python -m vlm_envs list | check | play | gallery | report`."""
