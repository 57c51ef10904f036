"""Runs shell blocks in a folder that looks like the checkout, and lists their commands without running them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import CHECKOUT

_PROGRAMS = ("python", "python3", "pip", "make", "accelerate", "vllm", "vlm-envs", "source")

_BASH = shutil.which("bash") or "bash"

_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "JUDGE_KEY")


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of a shell block.

    Attributes:
        folder: Where it would run.
        python_path: `PYTHONPATH` at that point.
        words: The command and its arguments.
    """

    folder: Path
    python_path: str
    words: tuple[str, ...]


def link_checkout(folder: Path) -> None:
    """Links the checkout's files into a folder, so that what commands write stays out of the checkout."""
    listing = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=CHECKOUT, check=True).stdout
    for name in sorted({path.partition("/")[0] for path in listing.splitlines()}):
        (folder / name).symlink_to(CHECKOUT / name)
    programs = folder / ".programs"
    programs.mkdir()
    for name, arguments in {"python": "", "python3": "", "vlm-envs": " -m vlm_envs"}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n', encoding="utf-8")
        program.chmod(0o755)


def commands_of(script: str, folder: Path) -> list[Command]:
    """Returns the commands of a shell block in the order in which it would run them, none of them run.

    Bash itself expands variables, loops, and quotes; each program is a function that records its arguments. Programs
    other than those of the pages are not found.

    Raises:
        subprocess.CalledProcessError: If the shell cannot run the block; the output names the line.
    """
    record = folder / "commands"
    record.write_text("", encoding="utf-8")
    body = 'printf "%s\\0" "$PWD" "${PYTHONPATH-}" NAME "$@" >>"$RECORD"; printf "\\n\\0" >>"$RECORD"'
    functions = "\n".join(f"{name}() {{ {body.replace('NAME', name)}; }}" for name in _PROGRAMS)
    functions += "\nexit() { echo 'a block that ends early is not checked' >&2; return 1; }"
    environ = {**_environ(), "RECORD": str(record), "PYTHONPATH": "", "PATH": str(folder / "no-programs")}
    subprocess.run(
        [_BASH, "-euo", "pipefail", "-c", f"{functions}\n{script}"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environ,
        timeout=30,
        check=True,
    )
    parts = record.read_text(encoding="utf-8").split("\0")[:-1]
    commands, current = [], list[str]()
    for part in parts:
        if part != "\n":
            current.append(part)
            continue
        where, python_path, *words = current
        commands.append(Command(folder=Path(where), python_path=python_path, words=tuple(words)))
        current = []
    return commands


def run_script(script: str, folder: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Runs a shell block in a folder made by `link_checkout`."""
    environ = _environ()
    environ["PATH"] = f"{folder / '.programs'}{os.pathsep}{environ['PATH']}"
    environ |= {"PYTHONPATH": str(folder), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
    )


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _KEYS}
