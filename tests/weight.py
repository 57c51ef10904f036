"""Measure the size of the code base and the length of its reading path.

    python -m tests.weight                          # this checkout
    python -m tests.weight --root DIR               # another checkout of this project
    python -m tests.weight --no-path                # without training one iteration (about a minute)

Tokens exclude comments, docstrings (of attributes, too), line ends, and indentation. The reading path is the number of
files of the five packages with a function that runs between the first `World.step` and the first optimizer step of one
iteration of `sokoban_tiny`, in any thread of the training process.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = ("vlm_envs", "agents", "judges", "training", "benchmarks")
_LAYOUT = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


def source_files(root: Path) -> list[Path]:
    """Returns the Python files of the five packages, sorted."""
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def num_tokens(source: str) -> int:
    """Returns the number of Python tokens without comments, docstrings, line ends, and indentation."""
    docstrings = set(_docstring_positions(ast.parse(source)))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type not in _LAYOUT and token.start not in docstrings for token in tokens)


def _docstring_positions(tree: ast.AST) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.lineno, node.value.col_offset


def counts(root: Path) -> dict[str, Any]:
    """Returns tokens, lines, and files in all and by package, and the basenames that occur most often."""
    by_package: dict[str, Counter[str]] = {package: Counter() for package in PACKAGES}
    names: Counter[str] = Counter()
    for path in source_files(root):
        source = path.read_text(encoding="utf-8")
        package = path.relative_to(root).parts[0]
        by_package[package].update(tokens=num_tokens(source), lines=source.count("\n"), files=1)
        names[path.name] += 1
    del names["__init__.py"], names["__main__.py"]
    total = sum(by_package.values(), Counter())
    repeated = [[name, count] for name, count in names.most_common() if count > 4]
    return {**total, "packages": by_package, "basenames more than four times": repeated}


def reading_path(root: Path) -> list[str]:
    """Returns the files on the path from `World.step` to `optimizer.step`, measured in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "path.json"
        command = [sys.executable, str(Path(__file__).resolve()), "--trace", str(found), "--root", str(root)]
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        return list(json.loads(found.read_text(encoding="utf-8")))


def _trace(root: Path, found: Path) -> None:
    """Trains one small iteration of `sokoban_tiny` and writes which files it passes through."""
    from dataclasses import replace
    from unittest.mock import patch

    from torch.optim import Optimizer
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    from training.recipes.shipped import RECIPES
    from training.run import train
    from vlm_envs.world import World

    called: set[str] = set()
    passed: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            called.add(frame.f_code.co_filename)

    def first_step(world: Any, action: Any) -> Any:
        mock.stop()
        threading.setprofile(profile)
        sys.setprofile(profile)
        return world.step(action)

    def first_update(optimizer: Optimizer, *arguments: Any) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        if not passed:
            inside = (Path(file).resolve() for file in called if not file.startswith("<"))
            files = {str(file.relative_to(root)) for file in inside if file.is_relative_to(root)}
            passed.extend(sorted(file for file in files if file.split(os.sep)[0] in PACKAGES))

    mock = patch.object(World, "step", first_step)
    mock.start()
    register_optimizer_step_pre_hook(first_update)
    config = RECIPES["sokoban_tiny"]()
    model = str(root / str(config.model))
    algorithm = config.algorithm.with_critic(warmup_iterations=0, num_minibatches=2)
    ppo = replace(config.ppo, num_minibatches=2)
    short = replace(config, algorithm=algorithm, ppo=ppo, model=model, output=str(found.parent / "runs"))
    short = replace(short, num_iterations=1, num_groups=2, group_size=2, num_eval_episodes=0, device="cpu")
    train(short)
    found.write_text(json.dumps(passed), encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Prints what was measured as JSON."""
    parser = argparse.ArgumentParser(description="Measure the size of the code base.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--no-path", action="store_true", help="leave out the reading path, which needs training")
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    root = options.root.resolve()
    if options.trace:
        _trace(root, options.trace)
        return 0
    measured = counts(root)
    if not options.no_path:
        path = reading_path(root)
        measured["files from World.step to optimizer.step"] = {"count": len(path), "files": path}
    print(json.dumps(measured, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
