"""`python -m vlm_envs new`: writes a small package with a world of your own."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

from tyro.conf import Positional, arg

from vlm_envs.errors import ConfigError, require

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_FILES = {"world.py.txt": "{}.py", "test_world.py.txt": "test_{}.py", "pyproject.toml.txt": "pyproject.toml"}
"""Template to the name of the file that is made from it."""

_IMPORTED_BY = {"setup": "setuptools", "conftest": "pytest", "sitecustomize": "Python", "usercustomize": "Python"}
"""Module names that are free, and what imports a module of that name by itself."""


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """Write a package with a world of your own: a small one that is complete, to be changed into yours.

    Attributes:
        name: Its module, such as my_world.
        folder: Where its folder is made; the current one by default.
    """

    name: Annotated[str, Positional, arg(metavar="NAME")]
    folder: Path = Path()


def run_new(options: NewOptions) -> None:
    """Writes the package and prints what to do with it."""
    package = options.folder.expanduser() / options.name
    _require_name(options.name)
    if package.exists():
        raise ConfigError(f"{package} exists already and is left as it is. Choose another name or --folder.")
    _require_new_module(options.name)
    title = "".join(part.capitalize() for part in options.name.split("_"))
    env_id = f"Own/{title}-v0"
    names = {"module": options.name, "title": title, "env_id": env_id, "distribution": options.name.replace("_", "-")}
    package.mkdir(parents=True)
    for template, file in _FILES.items():
        text = (files("vlm_envs.cli") / "templates" / template).read_text(encoding="utf-8")
        (package / file.format(options.name)).write_text(Template(text).substitute(names), encoding="utf-8")
    print(_next_commands(package, f"{options.name}:{env_id}"))


def _require_name(name: str) -> None:
    """Raises `ConfigError` unless a name can be that of a module and of a distribution."""
    if not _NAME.fullmatch(name):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        meant = re.sub(r"[^a-z0-9]+", "_", words).strip("_")
        hint = f" Did you mean {meant!r}?" if _NAME.fullmatch(meant) else ""
        raise ConfigError(f"NAME is a Python module in lower case, such as my_world; got {name!r}.{hint}")
    require(not keyword.iskeyword(name), f"{name!r} is a keyword of Python. Choose another name.")


def _require_new_module(name: str) -> None:
    """Raises `ConfigError` if a module would hide another one, or be hidden by it."""
    if name in sys.stdlib_module_names:
        raise ConfigError(f"{name!r} is a module of Python's standard library. Choose another name.")
    if name in _IMPORTED_BY:
        raise ConfigError(f"{_IMPORTED_BY[name]} imports any module named {name!r} by itself. Choose another name.")
    spec = importlib.util.find_spec(name)
    if spec is not None:
        where = spec.origin or ", ".join(spec.submodule_search_locations or ())
        raise ConfigError(f"There is a module {name!r} already, at {where}. Choose another name.")


def _next_commands(package: Path, env_id: str) -> str:
    path = shlex.quote(str(package.absolute()))
    return f"""\
Wrote {package}. Next:
  cd {shlex.quote(str(package))}
  python -m vlm_envs check {env_id}
  python -m vlm_envs play {env_id}
  python -m pytest    (needs pytest: pip install pytest)
Put it on a board, in a checkout of vlm-envs:
  PYTHONPATH={path} python -m benchmarks run --agent random --world {env_id} \\
      --episodes 64 --out boards/{package.name}
Train it, in a checkout, which takes about 10 to 20 minutes on one idle CPU core:
  PYTHONPATH={path} python -m training {env_id} \\
      --worlds.0.kwargs.prompt-format no_think --cold-start.num-steps 400 --num-iterations 40
Then change {package.name}.py into your world: docs/own-world.md"""
