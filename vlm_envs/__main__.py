"""Lets `python -m vlm_envs` run the command line."""

from vlm_envs.cli.commands import main

if __name__ == "__main__":
    raise SystemExit(main())
