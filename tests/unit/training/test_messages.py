"""What a user reads who made a mistake: the option as typed, what came and what would do, before anything slow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from agents.api.endpoint_config import EndpointConfig
from tests.unit.training.batches import run_config
from tests.unit.training.test_preflight import UNPLANNED
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.shipped import SHIPPED
from training.config.run_config import RunConfig
from training.config.update_config import PPOConfig
from training.curation.curation_config import CurateConfig
from training.recipes.shipped import RECIPES
from training.recipes.tiny import any_world
from training.run_options import Recipe, configured
from vlm_envs.command_line import option_names
from vlm_envs.errors import ConfigError
from vlm_envs.validation import fields_named

CHECKOUT = Path(__file__).parents[3]
LAKE = "frozenlake_tiny"

MISTAKES = {
    "CartPole-v1": "adapt:CartPole-v1",
    "pool a_file.toml": "adapt:a_file.toml",
    f"{LAKE} --nonsense 3": "has no option --nonsense. An argument of",
    "mags --num-iterations 3": (
        "Did you mean --stages.foundations.num-iterations or --stages.complex.num-iterations? All of them: python -m "
        "training mags --help"
    ),
    "arm_thinker --num-epochs 3": "Did you mean --stages.sft.num-epochs?",
    "mags --nonsense 3": "--stages.foundations.help-all, --stages.complex.help-all. All of them: ",
    "frozenlake_tny": "Did you mean 'frozenlake_tiny'?",
    f"{LAKE} --worlds.0.env-id VLM/Sokobn-v0": "Did you mean 'VLM/Sokoban-v0'?",
    f"{LAKE} --num-groups 0": "--num-groups must be at least 1; got 0.",
    f"{LAKE} --num-itertions 3": (
        "error: python -m training frozenlake_tiny has no option --num-itertions. Did you mean '--num-iterations'? All "
        "of them: python -m training frozenlake_tiny --help-all"
    ),
    f"cold_start {LAKE} --num-steps 10": (
        "error: python -m training cold_start frozenlake_tiny has no option --num-steps. Did you mean "
        "--cold-start.num-steps? All of them: python -m training cold_start frozenlake_tiny --help-all"
    ),
    f"{LAKE} --clip-low 0.1": "has no option --clip-low. Did you mean --ppo.clip-low?",
    f"{LAKE} --learning-rate 1": "Did you mean --algorithm.critic.learning-rate or --ppo.learning-rate",
    f"{LAKE} --max-turns 4": "An argument of a world is --worlds.0.kwargs.max-turns.",
    f"{LAKE} --worlds VLM/Sokoban-v0": (
        "error: --worlds is not an option. Choose worlds by their index in the mix, --worlds.0.env-id VLM/Sokoban-v0 "
        "(--worlds.1.env-id adds another); to train on one world alone: python -m training VLM/Sokoban-v0."
    ),
    f"{LAKE} --worlds": "--worlds.0.env-id ID",
    f"{LAKE} VLM/Sokoban-v0": "--worlds.0.env-id VLM/Sokoban-v0",
    f"{LAKE} --num-iterations 3 4": "error: '4' belongs to no option of python -m training frozenlake_tiny.",
    f"{LAKE} --worlds.0.weight -1": "error: --worlds.0.weight must be above 0; got -1.0.",
    f"{LAKE} --judge.endpoint.max-attempts 0 --judge.endpoint.model a --judge.endpoint.base-url http://a": (
        "--judge.endpoint.max-attempts must be at least 1; got 0."
    ),
    f"{LAKE} --judge.method direct": "with --judge.endpoint.model NAME and",
    f"{LAKE} --algorithm --output x": (
        "error: --algorithm takes a value; got none but the option --output. Choose one of "
        f"{', '.join(SHIPPED)}, or your own as MODULE:CLASS."
    ),
    f"{LAKE} --algorithm.type grpo": "Choose another algorithm with --algorithm NAME.",
    f"{LAKE} --algorithm tokn_gae": "error: Unknown algorithm 'tokn_gae'. Did you mean 'token_gae'?",
    f"{LAKE} --algorithm no_module:RLOO": "error: --algorithm no_module:RLOO: cannot import 'no_module'",
    f"{LAKE} --algorithm training.algorithms.grpo:GRP": "training.algorithms.grpo has no algorithm 'GRP'.",
    f"{LAKE} --algorithm token_gae --algorithm.gamma-turn 0.5": "has no option --algorithm.gamma-turn. Did you mean",
    f"{LAKE} --algorithm.gama-turn 0.5": "has no option --algorithm.gama-turn. Did you mean '--algorithm.gamma-turn'?",
    f"{LAKE} --algorithm.gamma-turn 1.5": "--algorithm.gamma-turn must be at least 0 and at most 1; got 1.5.",
    "curate": "error: python -m training curate takes options; got none.",
    "curate --num-sampels 3": "has no option --num-sampels. Did you mean '--num-samples'?",
    "curate --sampling.top-p 0": "--sampling.top-p must be at least 0.05 and at most 1; got 0.0.",
    "curate --set x": "--set takes NAME=VALUE",
    "--recipe missing.py": "no such file",
    f"{LAKE} --worlds.0.kwargs.siz 3": "Did you mean 'size'?",
    f"{LAKE} --worlds.0.kwargs.size 300": "at most 4096",
    f"{LAKE} --worlds.0.env-id VLM/ZoomQA-v0 --judge.grounding-weight 0 --judge.worldmodeling-weight 0": (
        "Change the argument that it does not accept, yours or a recipe's, with --worlds.0.kwargs.NAME VALUE."
    ),
    f"{LAKE} --worlds.0.workers quick": (
        "--worlds.0.workers must be one of 'serial', 'thread', 'process', 'ray'; got 'quick'."
    ),
    f"{LAKE} --worlds.0.step-timeout-s soon": "--worlds.0.step-timeout-s takes a number; got 'soon'.",
    f"{LAKE} --worlds.0.step-timeout-s 0": "--worlds.0.step-timeout-s must be above 0; got 0.0.",
    f"{LAKE} --worlds.0.num-workers 2.5": "--worlds.0.num-workers takes a whole number; got '2.5'.",
    f"cold_start {LAKE} --worlds.0.kwargs.siz 3": "Did you mean 'size'?",
    "curate --set side_px=-1": "side_px",
    "unplanned:Own/Unplanned-v0": "has no planner",
    f"{LAKE} --model no/such/model": "No checkpoint at no/such/model",
    f"{LAKE} --model None --cold-start.start-from no/such/model": "No checkpoint at no/such/model",
    f"{LAKE} --sampling.temperature 1e-9": (
        "--sampling.temperature must be at least 0.01, or 0 for the likeliest token; got 1e-09."
    ),
    f"cold_start {LAKE} --model some/checkpoint": (
        "error: cold_start makes a model, so --model some/checkpoint would have no effect. To continue from that "
        "checkpoint: --cold-start.start-from some/checkpoint."
    ),
    f"{LAKE} --num-iterations 10 --eval-every 10": "--eval-every must be less than --num-iterations (10)",
    f"{LAKE} --resume --name never_started": "No run in",
    f"{LAKE} --output a_file": (
        "error: --output a_file: a_file is not a folder, so a_file/frozenlake_tiny cannot be made. Name a folder that "
        "can be written to."
    ),
    f"cold_start {LAKE} --output a_file": "a_file is not a folder, so a_file/frozenlake_tiny_cold_start",
    "curate --output a_file": "--output a_file: a_file is not a folder, so a_file/curated cannot be made.",
    f"{LAKE} --output /proc/of_nobody": (
        "error: --output /proc/of_nobody: /proc takes no files (No such file or directory), so "
        "/proc/of_nobody/frozenlake_tiny cannot be made. Name a folder that can be written to."
    ),
    f"{LAKE} --name {'n' * 300}": "--output runs: its path is invalid (File name too long), so runs/nnn",
    f"{LAKE} --name=": "--name must be one part of a path, such as my_run: it is a folder within --output; got ''.",
    f"{LAKE} --name ../x": "it is a folder within --output; got '../x'.",
    f"{LAKE} --name ..": "--name must be one part of a path",
    f"{LAKE} --name a/b --resume": "--name must be one part of a path",
    "curate --name a/b": "must be one part of a path, such as my_run: it is a folder within --output; got 'a/b'",
    f"{LAKE} --resume --name bulbs": (
        "error: frozenlake_tiny trains VLM/FrozenLake-v0, but the run in runs/bulbs trains own_world:Own/Bulbs-v0: "
        "name the recipe or the world it was started with, or another run with --name."
    ),
    f"{LAKE} --resume --name lake --num-iterations 3": (
        "error: --num-iterations 3: the run has already done 4. Give a larger number to extend it; to keep an earlier "
        "state, start another run."
    ),
    f"{LAKE} --resume --name lake --num_iterations=2": "error: --num-iterations 2: the run has already done 4.",
    f"{LAKE} --resume --name mixed": "error: No checkpoint at runs/mixed/latest",  # its worlds were options
    f"{LAKE} --resume --name half": "error: No checkpoint at runs/half/latest",
    "own_world:Own/Bulb-v0": "error: Unknown env 'own_world:Own/Bulb-v0'. Did you mean 'own_world:Own/Bulbs-v0'?",
    "broken_syntax:Own/World-v0": (
        "error: broken_syntax:Own/World-v0: cannot import 'broken_syntax': broken_syntax.py, line 2: SyntaxError: "
    ),
    "broken_start:Own/World-v0": "broken_start.py, line 3: RuntimeError: no display here",
    "broken_import:Own/World-v0": "broken_import.py, line 1: ModuleNotFoundError: No module named 'not_installed'",
    "broken_exit:Own/World-v0": "broken_exit.py, line 2: SystemExit: 3",
    ":Own/World-v0": "Unknown recipe ':Own/World-v0'.",
    "--recipe broken_syntax.py": (
        "error: --recipe broken_syntax.py: cannot import 'broken_syntax': broken_syntax.py, line 2: SyntaxError: "
    ),
    "--recipe broken_start:make": "'broken_start': broken_start.py, line 3: RuntimeError: no display here",
    "--recipe broken_recipes.py:raises": (
        "error: --recipe broken_recipes.py:raises: broken_recipes.py, line 2: KeyError: 'HOME_OF_MODELS'"
    ),
    "--recipe broken_recipes.py:returns": "broken_recipes.py:returns: returns int, not a RunConfig or StagesConfig.",
    "--recipe broken_recipes.py:takes": "takes() missing 1 required positional argument: 'lines'",
}
"""Command lines that none of it takes torch to refuse, and a part of what is said."""

FILES = {
    "unplanned.py": UNPLANNED,
    "a_file": "",
    "a_file.toml": "",
    "broken_syntax.py": "import os\ndef broken(:\n",
    "broken_start.py": "import os\n\nraise RuntimeError('no display here\\nand a second line')\n",
    "broken_import.py": "import not_installed\n",
    "broken_exit.py": "import sys\nsys.exit(3)\n",
    "broken_recipes.py": (
        "def raises():\n    return {}['HOME_OF_MODELS']\n\ndef returns():\n    return 3\n\n"
        "def takes(lines):\n    pass\n"
    ),
    "runs/mixed/config.json": json.dumps(
        RECIPES["sokoban_tiny"]().to_dict()
        | {"name": "mixed", "command": f"python -m training {LAKE} --worlds.0.env-id VLM/Sokoban-v0 --name mixed"}
    ),
    "runs/half/config.json": json.dumps(RECIPES[LAKE]().to_dict() | {"name": "half"}),
    "runs/lake/config.json": json.dumps(RECIPES[LAKE]().to_dict() | {"name": "lake"}),
    "runs/lake/latest/state.pt": "read by torch only",
    "runs/lake/latest/progress.json": '{"iteration": 4}',
}
"""What is in the user's folder; beside it there is a run of a world of one's own, `runs/bulbs`."""

RUN_THEM = """
import contextlib, io, json, sys, types
from training.__main__ import main

SLOW = {"torch", "transformers", "openai", "scipy", "matplotlib", "tensorboard"}


def outcome(given):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            status = main(given.split())
        except SystemExit as stopped:
            status = stopped.code
    return {"status": status, "said": said.getvalue(), "slow": sorted(SLOW & set(sys.modules))}


found = {given: outcome(given) for given in json.loads(sys.argv[1])}
sys.modules["torch"] = types.SimpleNamespace(
    __version__="2.0", cuda=types.SimpleNamespace(is_available=lambda: False), empty=lambda *_, **__: None
)
found["cuda"] = outcome("frozenlake_tiny --device cuda")
json.dump(found, sys.__stdout__)
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each command line came to, all in one process that starts without anything imported."""
    folder = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECKOUT / "examples"))
        bulbs = json.dumps(any_world("own_world:Own/Bulbs-v0").to_dict() | {"name": "bulbs"})
    for name, content in {**FILES, "runs/bulbs/config.json": bulbs}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    before = files_in(folder)
    path = os.pathsep.join(map(str, (CHECKOUT, CHECKOUT / "examples", folder)))
    command = [sys.executable, "-c", RUN_THEM, json.dumps(list(MISTAKES))]
    told = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=280
    )
    assert told.returncode == 0, told.stderr
    assert files_in(folder) == before, "no run is left"
    found: dict[str, dict[str, Any]] = json.loads(told.stdout)
    return found


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("given", MISTAKES)
def test_a_mistake_is_told_before_anything_slow_is_imported(given, outcomes):
    outcome = outcomes[given]
    assert MISTAKES[given] in outcome["said"]
    assert "in python" not in outcome["said"], "the program has its whole name, wherever it is named"
    assert (outcome["status"], outcome["slow"]) == (2, [])


def test_a_missing_gpu_is_told_before_transformers_is_imported(outcomes):
    outcome = outcomes["cuda"]
    assert outcome["said"].startswith("error: --device cuda: torch 2.0 sees no CUDA GPU here. Use --device cpu")
    assert (outcome["status"], outcome["slow"]) == (2, ["torch"])


def numbers_of(kind: type) -> list[tuple[type, str, str]]:
    """Returns every number a command line takes: the configuration it is in, its field and its option."""
    return [
        (part, field, option)
        for part, options in option_names(kind).items()
        for field, option in options.items()
        if {int, float} & {(hint := get_type_hints(part)[field]), *get_args(hint)}
    ]


ENDPOINT = EndpointConfig(model="m", base_url="http://m")
PARTS: dict[type, Any] = {RunConfig: run_config(), EndpointConfig: ENDPOINT, CurateConfig: CurateConfig()}


@pytest.mark.parametrize("kind", [RunConfig, CurateConfig])
def test_every_number_has_a_range_and_is_called_by_its_option(kind):
    """The threshold of a curation is a reward, and rewards may be negative."""
    numbers = [each for each in numbers_of(kind) if each[2] != "--threshold"]
    assert len(numbers) > 5
    for part, field, option in numbers:
        with fields_named(option_names(kind)), pytest.raises(ConfigError) as caught:
            replace(PARTS[part] if part in PARTS else part(), **{field: -7})
        assert str(caught.value).startswith(f"{option} must be "), option
        assert str(caught.value).endswith("; got -7.")


def test_what_is_infinite_is_told_that_it_has_to_be_finite():
    with pytest.raises(ConfigError, match=r"^learning_rate must be above 0 and finite; got inf\.$"):
        PPOConfig(learning_rate=float("inf"))


def test_a_number_is_called_by_its_field_in_python():
    with pytest.raises(ConfigError, match=r"^max_attempts must be at least 1; got 0\.$"):
        replace(ENDPOINT, max_attempts=0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"num_groups": 3, "group_size": 2},
            "The 6 rows of an iteration, --num-groups 3 times --group-size 2, do not divide evenly into "
            "--ppo.num-minibatches 4.",
        ),
        (
            {"num_groups": 2, "group_size": 2},
            "The 4 rows of an iteration, --num-groups 2 times --group-size 2, are fewer than "
            "--algorithm.critic.num-minibatches 16.",
        ),
        (
            {"num_groups": 3, "group_size": 3, "algorithm": GRPO()},
            "The 9 rows of an iteration, --num-groups 3 times --group-size 3, do not divide evenly into "
            "--ppo.num-minibatches 4.",
        ),
    ],
)
def test_groups_that_do_not_fit_are_refused(changes, said):
    with pytest.raises(ConfigError) as caught:
        run_config(**{"algorithm": BilevelGAE(critic=CriticConfig(num_minibatches=16)), **changes}, ppo=PPOConfig())
    assert str(caught.value) == said


def test_the_options_of_a_judge_s_endpoint_may_stand_anywhere():
    given = "--judge.endpoint.model=a --judge.method direct --judge.endpoint.base-url http://a --num-iterations 3"
    config = configured(Recipe(name=LAKE, make=RECIPES[LAKE]), given.split())
    assert config.judge.endpoint == EndpointConfig(model="a", base_url="http://a")
    assert (config.judge.method, config.num_iterations) == ("direct", 3)
