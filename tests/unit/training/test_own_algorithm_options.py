"""Algorithms of one's own on the command line: how they are named, saved, taken up again, and refused."""

from __future__ import annotations

import json
import re
import sys

import pytest

from training.config.resume import check_same_run, saved_config
from training.recipes.shipped import RECIPES
from training.run_options import Recipe, configured
from vlm_envs.errors import ConfigError

RECIPE = Recipe(name="frozenlake_tiny", make=RECIPES["frozenlake_tiny"])


def words(line):
    return line.split()


OWN_ALGORITHMS = """
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Literal

from training.algorithms.algorithm import Algorithm
from training.algorithms.bilevel_gae import BilevelGAE

class Colour(Enum):
    RED = 1
    BLUE = 2

@dataclass(frozen=True, kw_only=True)
class Inner:
    tables: tuple[Path, ...] = (Path("a"), Path("b"))
    weights: list[float] = field(default_factory=lambda: [0.5, 1.0])

@dataclass(frozen=True, kw_only=True)
class Whitened(BilevelGAE):
    whiten: Literal["none", "rows"] = "none"
    table: Path = Path("table.json")

@dataclass(frozen=True, kw_only=True)
class Required(BilevelGAE):
    beta: float

@dataclass(frozen=True, kw_only=True)
class Other:
    depth: int = 1

@dataclass(frozen=True, kw_only=True)
class Rich(BilevelGAE):
    numbers: list[int] = field(default_factory=lambda: [1, 2])
    pairs: list[tuple[int, float]] = field(default_factory=lambda: [(1, 0.5)])
    named: tuple[str, Path] = ("x", Path("y"))
    shares: dict[str, float] = field(default_factory=lambda: {"a": 0.25})
    steps: dict[int, Path] = field(default_factory=dict)
    either: tuple[int, ...] | str | None = (3,)
    color: Colour = Colour.RED
    inner: Inner = Inner()
    perhaps: Other | None = None

@dataclass(frozen=True, kw_only=True)
class Frozen(BilevelGAE):
    kinds: frozenset[str] = frozenset("a")

@dataclass(frozen=True, kw_only=True)
class Untold(BilevelGAE):
    place: str | Path = Path("a")

@dataclass(frozen=True, kw_only=True)
class Limit(BilevelGAE):
    limit: float = 1.0
    cap: float | None = None

@dataclass(frozen=True, kw_only=True)
class Creditless(Algorithm):
    pass

class Undecorated(BilevelGAE):
    beta: float = 0.5

@dataclass(frozen=True, kw_only=True)
class Checked(BilevelGAE):
    beta: int | None = None

    def __post_init__(self):
        if self.beta:
            raise ValueError("beta is odd")
"""


@pytest.fixture
def own_algorithms(tmp_path, monkeypatch):
    (tmp_path / "own_algorithms.py").write_text(OWN_ALGORITHMS)
    (tmp_path / "misspelt.py").write_text("x = undefined_name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("own_algorithms", "misspelt"):
        sys.modules.pop(name, None)


def test_a_setting_of_another_type_is_another_setting(own_algorithms):
    config = configured(RECIPE, ["--algorithm", "own_algorithms:Whitened"])
    assert config.algorithm.whiten == "none"
    assert config.algorithm.lambda_turn == RECIPE.config().algorithm.lambda_turn
    assert config.to_dict()["algorithm"]["table"] == "table.json", "a path is saved as text"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_algorithms:Required", "give its setting 'beta' a default"),
        ("own_algorithms:Whitend", "Did you mean 'Whitened'?"),
        ("training.algorithms.algorithm:Algorithm", "is abstract: it lacks credit."),
        ("own_algorithms:Creditless", "own_algorithms:Creditless is abstract: it lacks credit."),
        ("own_algorithms:Undecorated", "is not a frozen dataclass: add @dataclass(frozen=True, kw_only=True)"),
        ("own_algorithms:Colour", "own_algorithms:Colour is not"),
        ("misspelt:X", "misspelt.py, line 1: NameError"),
        ("no_such_module:X", "PYTHONPATH"),
        (":X", "Unknown algorithm ':X'"),
    ],
)
def test_an_algorithm_that_cannot_be_taken_is_explained(own_algorithms, name, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        configured(RECIPE, ["--algorithm", name])


def saved(config, tmp_path):
    directory = tmp_path / "saved"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config.to_dict()))
    return directory


@pytest.mark.parametrize(
    "given",
    [
        "",
        "--algorithm.numbers 4 5",
        "--algorithm.shares a 0.5 --algorithm.steps 3 here",
        "--algorithm.pairs 4 0.5 5 0.25",
        "--algorithm.named z there --algorithm.color BLUE",
        "--algorithm.either 4 5 --algorithm.inner.tables c d --algorithm.inner.weights 2 3",
    ],
)
@pytest.mark.sample(3)
def test_an_algorithm_of_ones_own_goes_on_with_what_it_began_with(own_algorithms, tmp_path, given):
    config = configured(RECIPE, ["--algorithm", "own_algorithms:Rich", *given.split()])
    directory = saved(config, tmp_path)
    assert saved_config(directory) == config
    for repeated in ("", given):
        again = configured(RECIPE, repeated.split(), saved_config(directory))
        assert again.algorithm == config.algorithm
        check_same_run(again, directory)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Frozen", "setting 'kinds' is frozenset({'a'}), which cannot be saved"),
        ("Untold", "setting 'place' is PosixPath('a'), which cannot be saved"),
        ("Limit --algorithm.limit nan", "setting 'limit' is nan, which cannot be saved"),
        ("Limit --algorithm.limit inf", "setting 'limit' is inf, which cannot be saved"),
        ("Limit --algorithm.cap inf", "setting 'cap' is inf, which cannot be saved"),
    ],
)
def test_settings_that_no_run_could_be_resumed_with_are_refused_before_it(own_algorithms, asked, said):
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        configured(RECIPE, words(f"--algorithm own_algorithms:{asked}"))
    assert "\n" not in str(refused.value) and "finite numbers, texts" in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--algorithm.beta 3", "beta is odd. All options:"),
        ("--algorithm.beta x", "--algorithm.beta: "),
        ("--algorithm.critic.value-clip x", "--algorithm.critic.value-clip: "),
    ],
)
def test_an_error_about_a_setting_of_an_own_algorithm_names_it(own_algorithms, given, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        configured(RECIPE, ["--algorithm", "own_algorithms:Checked", *given.split()])
