"""From words to a configuration: worlds and recipes of one's own, any argument of a world, errors that come at once."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.slow import quick
from tests.unit.training.own_critic import with_own_critic
from training.algorithms.grpo import GRPO
from training.algorithms.shipped import SHIPPED
from training.commands import COMMANDS
from training.config.saved_config import plain, rebuilt
from training.config.world_spec import WorldSpec
from training.pools.pool_config import PoolConfig
from training.recipes.shipped import OF_A_WORLD, RECIPES
from training.run_options import MAIN_OPTIONS, Recipe, configured, find_recipe, option_value
from training.stages.stages_options import stage_options
from training.world_options import read_world_options
from vlm_envs.errors import ConfigError

CHECKOUT = Path(__file__).parents[3]
LAKE = "VLM/FrozenLake-v0"
MIX = (WorldSpec(env_id=LAKE, kwargs={"representation": "structured", "prompt_example": False}),)

RECIPE_FILE = """
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.config.judge_config import JudgeConfig


def small_lake() -> RunConfig:
    '''A lake without judges.'''
    return RunConfig(
        name="small_lake",
        worlds=(WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"prompt_format": "no_think"}),),
        judge=JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0),
    )
"""


def words(text: str) -> list[str]:
    return text.split(" ")


def test_the_usage_line_is_a_call_that_runs(tmp_path, capsys):
    (tmp_path / "lakes_of_a_usage.py").write_text(RECIPE_FILE)
    named = f"--recipe {tmp_path / 'lakes_of_a_usage.py'}:small_lake"
    for given in (named, "frozenlake_tiny", LAKE):
        recipe, rest = find_recipe([*words(given), "--help"])
        with pytest.raises(SystemExit):
            configured(recipe, rest)
        usage = " ".join(capsys.readouterr().out.split()).removeprefix("usage: ")
        assert usage.startswith(f"python -m training {given} [")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--worlds.0.kwargs.max-turns 5", {"max_turns": 5}),
        ("--worlds.0.kwargs.max_turns=5", {"max_turns": 5}),
        ("--worlds.0.kwargs.prompt-example", {"prompt_example": True}),
        ("--worlds.0.kwargs.no-prompt-example", {"prompt_example": False}),
        ("--worlds.0.kwargs.prompt-example false", {"prompt_example": False}),
        ("--worlds.0.kwargs.representation symbolic", {"representation": "symbolic"}),
        ("--worlds.0.kwargs.reward -0.5", {"reward": -0.5}),
        ("--worlds.0.kwargs.max-steps None", {"max_steps": None}),
        ("--worlds.0.kwargs.size 4 6", {"size": (4, 6)}),
        ("--worlds.0.kwargs.size (4,6)", {"size": (4, 6)}),
    ],
)
def test_any_argument_of_a_world_is_an_option(given, expected):
    (changed,), rest = read_world_options(["--seed", "3", *words(given), "--name", "x"], MIX)
    assert changed.kwargs == {**MIX[0].kwargs, **expected}
    assert rest == ["--seed", "3", "--name", "x"]


def test_what_a_mix_says_of_a_world_is_an_option_and_the_next_number_adds_one():
    given = "--worlds.1.env-id VLM/Sokoban-v0 --worlds.0.weight 3 --worlds.1.kwargs.num-boxes 2 --worlds.0.name lake"
    mix, rest = read_world_options(words(given), MIX)
    assert rest == []
    assert (mix[0].name, mix[0].weight, mix[0].kwargs) == ("lake", 3.0, MIX[0].kwargs)
    assert (mix[1].env_id, mix[1].kwargs) == ("VLM/Sokoban-v0", {"num_boxes": 2})
    mix, _ = read_world_options(words("--worlds.0.cold-start-suboptimal-rate 0.3"), mix)
    assert [each.cold_start_suboptimal_rate for each in mix] == [0.3, None]
    mix, _ = read_world_options(words("--worlds.0.cold-start-suboptimal-rate None"), mix)
    assert mix[0].cold_start_suboptimal_rate is None
    mix, _ = read_world_options(words("--worlds.1.cold-start-weight 2.5"), mix)
    assert [each.cold_start_weight for each in mix] == [None, 2.5]


def test_a_pool_of_a_world_is_given_by_its_settings_which_stay_unless_they_are_changed():
    given = "--worlds.0.pool.file a --worlds.0.pool.min-pass-rate 0.2 --worlds.0.pool.drop-trivial"
    drawn, _ = read_world_options(words(f"{given} --worlds.0.pool.draw 96 --worlds.0.pool.attempts 5"), MIX)
    assert (drawn[0].pool.draw, drawn[0].pool.attempts) == (96, 5)
    more = "--worlds.0.pool.exclude b c --worlds.0.cold-start-pool.file=d --worlds.0.pool.max_solution_length 7"
    mix, rest = read_world_options(words(f"{given} {more}"), MIX)
    pool = PoolConfig(file="a", min_pass_rate=0.2, drop_trivial=True, exclude=("b", "c"), max_solution_length=7)
    assert rest == [] and (mix[0].pool, mix[0].cold_start_pool) == (pool, PoolConfig(file="d"))
    changed = "--worlds.0.pool.file e --worlds.0.pool.no-drop-trivial --worlds.0.pool.min-pass-rate None"
    (spec,), _ = read_world_options(words(f"{changed} --worlds.0.cold-start-pool None"), mix)
    assert spec.pool == replace(pool, file="e", drop_trivial=False, min_pass_rate=None)
    assert spec.cold_start_pool is None
    (_, added), _ = read_world_options(words("--worlds.1.env-id VLM/Sokoban-v0 --worlds.1.pool.file f"), MIX)
    assert added.pool == PoolConfig(file="f")
    config = configured(RECIPE, words(given))
    assert rebuilt(WorldSpec, json.loads(json.dumps(plain(config.worlds[0])))) == config.worlds[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--worlds.0.pool a", "--worlds.0.pool has its own settings: --worlds.0.pool.file FILE; or None"),
        ("--worlds.0.pool.min-pass-rate 0.5", "--worlds.0.pool needs a file of levels: --worlds.0.pool.file FILE"),
        ("--worlds.0.pool.flie a", "Did you mean 'file'?"),
        ("--worlds.0.pool.file a --worlds.0.pool.min-pass-rate low", "min-pass-rate takes a number; got 'low'"),
        ("--worlds.0.pool.file a b", "--worlds.0.pool.file takes one value; got a b"),
        ("--worlds.0.pool.file a --worlds.0.pool.drop-trivial yes", "drop-trivial takes no value; got yes"),
        ("--worlds.0.pool.file a --worlds.0.pool.max-pass-rate 40", "--worlds.0.pool.max-pass-rate must be at least 0"),
        ("--worlds.0.env-id VLM/Sokobn-v0", "Unknown env 'VLM/Sokobn-v0'. Did you mean 'VLM/Sokoban-v0'?"),
        ("--worlds.0.env-id mine:My/World-v0", "mine:My/World-v0: cannot import 'mine'"),
        ("--worlds.0.cold-start-suboptimal-rate 2", "--worlds.0.cold-start-suboptimal-rate must be at least 0"),
        ("--worlds.0.cold-start-weight 0", "--worlds.0.cold-start-weight must be above 0"),
        ("--worlds.0.weight many", "--worlds.0.weight takes a number; got 'many'"),
        ("--worlds.0.weight", "--worlds.0.weight takes one value; got none"),
        ("--worlds.0.max-turns 5", "--worlds.0.kwargs.max-turns"),
        ("--worlds.2.env-id VLM/Sokoban-v0", "the mix has 1 world, counted from 0. --worlds.1.env-id ID adds one"),
    ],
)
def test_mistakes_in_options_of_worlds_are_explained(given, said):
    with pytest.raises(ConfigError) as caught:
        read_world_options(words(given), MIX)
    assert said in str(caught.value)


def test_a_configuration_is_checked_with_all_its_options_together():
    """Without the judge's options the format would be refused, and without the format they would do nothing."""
    recipe = Recipe(name="frozenlake_tiny", make=RECIPES["frozenlake_tiny"])
    given = "--worlds.0.kwargs.prompt-format no_think --judge.grounding-weight 0 --judge.worldmodeling-weight 0"
    assert configured(recipe, words(given)).worlds[0].prompt_format == "no_think"
    with pytest.raises(ConfigError):
        configured(recipe, words(given)[:2])


@pytest.mark.parametrize(
    ("given", "eval_every", "warmup", "told"),
    [
        ("--num-iterations 11", 10, 2, []),
        ("--num-iterations=10", 0, 2, [("--eval-every", 10, 0)]),
        (
            "--num_iterations 2",
            0,
            1,
            [("--eval-every", 10, 0), ("--algorithm.critic.warmup-iterations", 2, 1)],
        ),
        (
            "--num-iterations 1",
            0,
            0,
            [("--eval-every", 10, 0), ("--algorithm.critic.warmup-iterations", 2, 0)],
        ),
        ("--num-iterations 0", 0, 2, [("--eval-every", 10, 0)]),
        ("--num-iterations 3 --eval-every 2", 2, 2, []),
    ],
)
def test_a_recipe_may_be_tried_for_a_few_iterations(given, eval_every, warmup, told, capsys):
    recipe = Recipe(name="mine", make=lambda: replace(with_own_critic(), eval_every=10))
    config = configured(recipe, words(given))
    assert (config.eval_every, config.algorithm.critic_warmup_iterations) == (eval_every, warmup)
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == len(told)
    for line, (option, before, now) in zip(shown, told, strict=True):
        assert option in line and f"from {before} to {now}" in line


def test_of_several_processes_the_main_one_alone_tells(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    configured(Recipe(name="mine", make=RECIPES["frozenlake_tiny"]), words("--num-iterations 1"))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("asked", ["--eval-every 10", "--algorithm.critic.warmup-iterations 2"])
def test_what_is_asked_for_and_does_nothing_in_a_few_iterations_is_refused(asked):
    recipe = Recipe(name="mine", make=RECIPES["frozenlake_tiny"])
    with pytest.raises(ConfigError, match=asked.split()[0]):
        configured(recipe, words(f"--num-iterations 2 {asked}"))


@pytest.mark.parametrize(
    ("name", "algorithm"),
    quick(
        itertools.product(RECIPES, SHIPPED),
        *(("frozenlake_tiny", algorithm) for algorithm in SHIPPED),
        *((name, "grpo") for name in RECIPES),
    ),
)
@pytest.mark.sample(6)
def test_recipes_can_be_compared_under_every_algorithm_by_one_option(name, algorithm):
    recipe = Recipe(name=name, make=RECIPES[name])
    own, group_size = recipe.config().algorithm, recipe.config().group_size
    siblings = ["--group-size", "2"] if group_size < SHIPPED[algorithm]().min_group_size else []
    assert not siblings or name in OF_A_WORLD, "the paper compares no siblings; who does has to ask for some"
    chosen = configured(recipe, ["--algorithm", algorithm, *siblings]).algorithm
    assert isinstance(chosen, SHIPPED[algorithm])
    assert {each: value for each, value in vars(own).items() if each in vars(chosen)}.items() <= vars(chosen).items()


def test_one_setting_of_an_algorithm_is_an_option(capsys):
    recipe = Recipe(name="mine", make=RECIPES["frozenlake_tiny"])
    changed = configured(recipe, words("--algorithm.lambda-turn 0.9 --algorithm.no-whiten"))
    assert changed.algorithm == replace(recipe.config().algorithm, lambda_turn=0.9, whiten=False)
    # In any order, and the last one counts
    changed = configured(recipe, words("--algorithm.scale none --algorithm token_gae --algorithm=grpo"))
    assert changed.algorithm == GRPO(scale="none")


def test_what_is_chosen_by_a_name_is_listed_with_its_names_and_the_settings_of_what_is_taken(capsys):
    with pytest.raises(SystemExit):
        configured(Recipe(name="mine", make=RECIPES["frozenlake_tiny"]), words("--algorithm grpo --help"))
    shown = " ".join(capsys.readouterr().out.replace("│", "").split())
    what = f"The training algorithm: {', '.join(SHIPPED)}; or your own"
    assert f"--algorithm NAME|MODULE:CLASS {what}" in shown
    assert "(default: grpo)" in shown and "--algorithm.scale {std,none}" in shown
    assert "--algorithm.gamma-turn" not in shown
    assert "--judge.episode-reward {None,arm_exploration,arm_accuracy," in shown
    assert "--resume Resume the run with this name" in shown


@pytest.mark.parametrize(
    ("algorithm", "foreign"),
    [
        ("token_gae", ["gamma-turn", "lambda-turn", "variant", "scale"]),
        ("turn_gae", ["gamma-token", "lambda-token", "variant", "mask"]),
        ("bilevel_gae", ["scale", "reward-placement", "mask"]),
        (
            "grpo",
            ["gamma-turn", "variant", "no-sibling-baseline", "whiten", "mask", "critic.learning-rate"],
        ),
    ],
)
def test_a_setting_that_an_algorithm_does_not_have_cannot_be_given(algorithm, foreign):
    recipe = Recipe(name="mine", make=RECIPES["frozenlake_tiny"])
    for setting in foreign:
        with pytest.raises(ConfigError, match=rf"has no option --algorithm.{setting}\."):
            configured(recipe, ["--algorithm", algorithm, f"--algorithm.{setting}", "1"])


def test_options_of_a_cold_start_need_one(tmp_path, capsys):
    recipe = Recipe(name="frozenlake_tiny", make=RECIPES["frozenlake_tiny"])
    given = words("--cold-start.num-steps 5 --cold-start.num-first-turn-steps=0")
    assert configured(recipe, [*given, "--model", "None"]).cold_start.num_steps == 5
    assert configured(recipe, given, makes_cold_start=True).cold_start.num_steps == 5
    saved = replace(recipe.make(), model=str(tmp_path))
    its_own = words(f"--cold-start.num-steps {saved.cold_start.num_steps}")
    assert configured(recipe, its_own, saved) == saved, "its own options may be repeated"
    for model in ([], ["--model", str(tmp_path)]):
        capsys.readouterr()
        configured(recipe, [*given, *model])
        warning = capsys.readouterr().out
        assert "--cold-start.num-steps (" in warning and "--cold-start.num-first-turn-steps (" in warning


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--cold-start.num-steps 60", (60, 0, 22)),
        ("--cold-start.num_steps=300", (300, 0, 300)),  # what fits stays as it is
        ("--cold-start.num-steps 60 --cold-start.num-first-turn-steps 50", (60, 0, 50)),
        ("--cold-start.num-steps 60 --cold-start.num-copying-steps 50", (60, 50, 10)),
        ("--cold-start.num-steps 320 --cold-start.num-copying-steps 100", (320, 100, 120)),
        ("--cold-start.num-steps 0", (0, 0, 300)),
    ],
)
def test_a_shorter_cold_start_has_fewer_first_turn_steps(given, expected, capsys):
    recipe, rest = find_recipe(["VLM/FrozenLake-v0", *words(given)])
    cold_start = configured(recipe, rest, makes_cold_start=True).cold_start
    assert (cold_start.num_steps, cold_start.num_copying_steps, cold_start.num_first_turn_steps) == expected
    assert ("from 300 to 22" in capsys.readouterr().out) == (expected[2] == 22)


def test_a_shorter_cold_start_keeps_the_proportions_of_all_steps():
    start = RECIPES["sokoban_tiny"]()
    before = replace(start.cold_start, num_steps=1000, num_copying_steps=100, num_first_turn_steps=500)
    recipe = Recipe(name="mine", make=lambda: replace(start, cold_start=before))
    cold_start = configured(recipe, words("--cold-start.num-steps 60"), makes_cold_start=True).cold_start
    assert (cold_start.num_copying_steps, cold_start.num_first_turn_steps) == (6, 30)
    with pytest.raises(ConfigError, match="must be at most"):
        configured(
            recipe, words("--cold-start.num-steps 60 --cold-start.num-first-turn-steps 61"), makes_cold_start=True
        )


def test_a_recipe_of_ones_own_is_a_file(tmp_path):
    path = tmp_path / "my_small_recipe.py"
    path.write_text(RECIPE_FILE)
    for named in (str(path), f"{path}:small_lake", "my_small_recipe:small_lake"):
        recipe, rest = find_recipe(["--seed", "3", "--recipe", named])
        assert recipe is not None
        config = configured(recipe, rest)
        assert (config.name, config.seed, recipe.description) == ("small_lake", 3, "A lake without judges.")


def test_mistakes_in_a_recipe_of_ones_own_are_explained(tmp_path):
    two, none = tmp_path / "two_recipes.py", tmp_path / "no_recipe.py"
    two.write_text(RECIPE_FILE + "\n\ndef other() -> RunConfig:\n    return small_lake()\n")
    none.write_text("from training.recipes.tiny import frozenlake_tiny\n")
    for named, said in (
        (two, r"has 2 of them \(small_lake, other\); choose one: --recipe .*two_recipes.py:small_lake"),
        (none, "needs one function annotated `-> RunConfig`.*has none"),
        (tmp_path / "missing.py", "no such file"),
        (f"{two}:smal_lake", "has no function 'smal_lake'. Did you mean 'small_lake'?"),
        ("no_such_module:recipe", "cannot import 'no_such_module'"),
    ):
        with pytest.raises(ConfigError, match=said):
            find_recipe(["--recipe", str(named)])


def test_any_world_can_be_trained_by_its_id(monkeypatch):
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples"))
    recipe, rest = find_recipe(["own_world:Own/Bulbs-v0", "--num-iterations", "5", "--worlds.0.kwargs.max-turns", "5"])
    assert recipe is not None
    config = configured(recipe, rest)
    (spec,) = config.worlds
    assert (config.name, config.num_iterations, spec.kwargs) == ("bulbs_tiny", 5, {"max_turns": 5})
    with replace(spec, workers="process").make_vector(1, split="train") as worlds:
        assert worlds.get_attr("max_turns") == (5,), "also where its module is not imported yet"


def test_a_world_of_ones_own_needs_neither_namespace_nor_version_in_its_id(tmp_path, monkeypatch):
    (tmp_path / "unversioned.py").write_text(
        "import gymnasium as gym\nfrom own_world import BulbWorld\ngym.register('Bulbs', entry_point=BulbWorld)\n"
    )
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples"))
    monkeypatch.syspath_prepend(str(tmp_path))
    recipe, rest = find_recipe(["unversioned:Bulbs"])
    assert recipe is not None
    assert (configured(recipe, rest).name, configured(recipe, rest).worlds[0].env_id) == (
        "bulbs_tiny",
        "unversioned:Bulbs",
    )
    with pytest.raises(ConfigError, match=r"Unknown env 'unversioned:Bulb'\. Did you mean 'unversioned:Bulbs'\?"):
        configured(Recipe(name="x", make=RECIPES["frozenlake_tiny"]), ["--worlds.0.env-id", "unversioned:Bulb"])


def test_the_last_value_of_an_option_counts():
    assert option_value(words("--name a --seed 1 --name=b"), "--name") == "b"
    assert option_value(words("--seed 1"), "--name") is None
    assert option_value(words("--num_iterations 3"), "--num-iterations") == "3", "as the parser takes it"


RECIPE = Recipe(name="frozenlake_tiny", make=RECIPES["frozenlake_tiny"])


def test_only_an_algorithm_with_a_critic_has_settings_of_one(capsys):
    kept = configured(RECIPE, words("--algorithm turn_gae --algorithm.critic.num-epochs 3")).algorithm
    own = RECIPE.config().algorithm
    assert own.critic.learning_rate == 4e-4 and kept.critic == replace(own.critic, num_epochs=3)
    grpo = configured(RECIPE, ["--algorithm", "grpo"])
    assert grpo.to_dict()["algorithm"] == {"class": "grpo", "scale": "std", "max_sampling_rounds": 1}
    assert not [name for name in vars(grpo.ppo) if "critic" in name or "value" in name]
    with pytest.raises(SystemExit):
        configured(RECIPE, words("--algorithm grpo --help"))
    shown = capsys.readouterr().out
    assert "--algorithm.scale" in shown and "--algorithm.critic" not in shown and "--ppo.critic" not in shown


def test_the_options_of_a_judge_s_endpoint_are_listed_and_those_it_needs_are_named(capsys):
    with pytest.raises(SystemExit):
        configured(RECIPE, ["--help-all"])
    shown = capsys.readouterr().out
    assert "--judge.endpoint.base-url STR" in shown and "endpoint-config" not in shown
    with pytest.raises(ConfigError, match=r"^--judge\.endpoint\.base-url must be the endpoint.s address"):
        configured(RECIPE, words("--judge.endpoint.model x"))


def options_shown(capsys, *given: str) -> list[str]:
    with pytest.raises(SystemExit) as stop:
        configured(RECIPE, [*given])
    assert stop.value.code == 0
    return re.findall(r"^(?:│ |  )(--\w[\w.-]*)", capsys.readouterr().out, re.MULTILINE)


def test_help_shows_the_main_options_and_names_what_shows_all(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for word in ("--help", "-h"):
        assert sorted(options_shown(capsys, word)) == sorted(MAIN_OPTIONS)
    with pytest.raises(SystemExit):
        configured(RECIPE, ["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(MAIN_OPTIONS) == 20 and len(lines) < 100
    everything = options_shown(capsys, "--help-all")
    assert {*MAIN_OPTIONS} < {*everything}
    assert lines[-1] == f"All {len(everything)} options: python -m training {RECIPE.words} --help-all"
    assert "--num-iterations INT" in "".join(lines) and "(default: 0)" in "".join(lines)


def test_a_stage_lists_all_of_its_options(capsys):
    recipe, words_left = find_recipe(["mags_tiny", "--stages.precision.help-all"])
    with pytest.raises(SystemExit):
        stage_options(recipe, recipe.made(), words_left)
    assert "--judge.endpoint.base-url STR" in capsys.readouterr().out


def test_the_short_help_of_a_stage_names_what_lists_the_rest(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    recipe, words_left = find_recipe(["mags_tiny", "--stages.precision.help"])
    with pytest.raises(SystemExit):
        stage_options(recipe, recipe.made(), words_left)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 100 and max(map(len, lines)) <= 80
    assert lines[-1].endswith("options: python -m training mags_tiny --stages.precision.help-all")


@pytest.mark.parametrize("command", ["sft", "curate", "pairs", "pool", "plan", "upscaler"])
def test_every_command_lists_all_options_in_lines_that_fit(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        COMMANDS[command](["--help-all"])
    assert stop.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("usage:")] == []
    assert len(lines) > 25


def test_the_short_help_of_commands_with_many_options(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for given in (["curate"], ["cold_start", "frozenlake_tiny"]):
        with pytest.raises(SystemExit):
            COMMANDS[given[0]]([*given[1:], "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) < 100 and lines[-1].endswith(f"python -m training {' '.join(given)} --help-all")
