"""The command line: `python -m agents play | list`."""
