"""Lets `python -m vlm_envs` run the command line."""

from __future__ import annotations

from vlm_envs.cli.commands import main

if __name__ == "__main__":
    raise SystemExit(main())
