"""Every registered world keeps the contract, in every format, representation and observation mode."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

import vlm_envs
from tests.unit.slow import quick
from vlm_envs import registration
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.responses.formats import FORMATS, REPRESENTATIONS
from vlm_envs.testing.contract import check_world
from vlm_envs.world import OBS_MODES, World

# These depend on neither format nor representation nor mode; the tests of the defaults run them
INDEPENDENT = ("same_seed_gives_the_same_bytes", "splits_are_disjoint", "is_a_gymnasium_env")
# This one depends on how actions are written: in most worlds in the same way in every format
HOSTILE = "hostile_answers_are_data"

# An action takes a simulated arm a quarter of a second: what does not depend on the world is checked on the others, and
# the worlds of a single task, whose engine and view are the same, by `make soak`
SLOW = [env_id for env_id in vlm_envs.env_ids() if env_id.startswith("VLM/PrimitiveSkill")]

# Question-answering worlds have strategies of their own; they are checked on small pictures and short documents
DEFAULT_MODES = ("natural_language", "image")
_SMALL_SCENES = {"side_px": (400, 600), "target_px": (16, 40)}
ASKING: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "VLM/ZoomQA-v0": (("arm", "mags", "ivgr_grounded", "ivgr_textual", "points", "direct"), _SMALL_SCENES),
    "VLM/DocQA-v0": (("arm", "direct"), {"num_pages": 5}),
    "VLM/VideoQA-v0": (("points", "direct"), {"num_frames": 6, "side_px": 112, "size_px": (16, 22), "max_turns": 2}),
    "VLM/RewardJudging-v0": (("arm", "direct"), {**_SMALL_SCENES, "num_pages": 5}),
}
_SETTINGS = {env_id for env_id, variant in registration.VARIANTS.items() if variant.base_id in ASKING}
FAST = [e for e in vlm_envs.env_ids() if e not in SLOW and e not in ASKING and e not in _SETTINGS]
DEFAULTS = [
    *quick(itertools.product(FAST, ("train", "val", "test")), *((env_id, "train") for env_id in FAST)),
    pytest.param("VLM/PrimitiveSkill-v0", "test", marks=pytest.mark.soak),
]
_FASTEST = ("VLM/FrozenLake-v0",)
_PROMPTS = [*itertools.product(*map(enumerate, (FORMATS, REPRESENTATIONS, OBS_MODES)))]

# Every pair of a format, a representation, and a mode in each world, and every triple in the fastest one. `make test`
# runs the triples, and in the other worlds each format, representation, and mode at least once.
PROMPTS = [
    pytest.param(env_id, *(name for _, name in prompt), marks=[] if env_id in _FASTEST or is_kept else pytest.mark.soak)
    for env_id in FAST
    for prompt in _PROMPTS
    if env_id in _FASTEST or sum(number for number, _ in prompt) % 2 == 0
    for is_kept in [prompt[2][0] == prompt[0][0] % len(OBS_MODES)]
]

VARIANTS = [
    pytest.param("VLM/Sokoban-v0", {"dim_room": (7, 7), "num_boxes": 2}, (), marks=pytest.mark.soak),
    ("VLM/Sokoban-v0", {"max_turns": 9, "max_actions_per_turn": 1, "max_steps": 9}, ()),
    ("VLM/FrozenLake-v0", {"size": 6, "cell_px": 14}, ()),
    ("VLM/FrozenLake-v0", {"max_turns": 1, "max_actions_per_turn": 9}, ()),
    ("VLM/FrozenLake-v0", {"is_slippery": True}, ("oracle_is_maximal", "plans_are_shortest")),
    ("VLM/FrozenLake-v0", {"desc": ["SFFF", "FHFH", "FFFH", "HFFG"]}, ("splits_are_disjoint",)),
]

INSTRUCTED = {"system_prompt": True, "format_reminder": True}


@functools.cache
def missing_engine(env_id: str) -> str | None:
    """Returns why a world cannot be played on this machine, or None if it can."""
    try:
        env = vlm_envs.make(env_id, **ASKING.get(env_id, ((), {}))[1])
        env.reset(seed=0)
        env.close()
    except EngineUnavailableError as error:
        return str(error)
    return None


@pytest.fixture(autouse=True)
def _needs_its_engine(env_id: str) -> None:
    if reason := missing_engine(env_id):
        pytest.skip(reason)


@pytest.mark.parametrize(("env_id", "split"), DEFAULTS)
def test_defaults(env_id: str, split: str) -> None:
    skip = ("splits_are_disjoint",) if env_id in FAST and split != "train" else ()  # It is of all splits, whichever
    results = check_world(env_id, split=split, skip=skip)
    left_out = {result.skipped for result in results if result.name not in skip}
    assert left_out <= {None, "a turn has one action"}


@pytest.mark.soak
@pytest.mark.parametrize("env_id", ["VLM/PrimitiveSkill-v0"])
def test_the_arm_in_small_pictures(env_id: str) -> None:
    """Rays are traced for each pixel; `make soak` runs all checks, with the world's defaults."""
    results = check_world(env_id, split="test", resolution=32, skip=INDEPENDENT)
    assert {result.skipped for result in results if result.name not in INDEPENDENT} <= {None, "a turn has one action"}


@pytest.mark.parametrize(("env_id", "prompt_format", "representation", "obs_mode"), PROMPTS)
@pytest.mark.sample(30)
def test_every_prompt(env_id: str, prompt_format: str, representation: str, obs_mode: str) -> None:
    kwargs = {"prompt_format": prompt_format, "representation": representation, "obs_mode": obs_mode}
    if representation not in vlm_envs.make(env_id).unwrapped.task.representations:
        with pytest.raises(ConfigError, match="representation must be one of"):
            vlm_envs.make(env_id, **kwargs)
        return
    check_world(env_id, skip=(*INDEPENDENT, HOSTILE), **kwargs)


@pytest.mark.parametrize(
    ("env_id", "prompt_format", "representation", "obs_mode"),
    [
        (env_id, prompt_format, *modes)
        for env_id, (strategies, _) in ASKING.items()
        for prompt_format in strategies
        for modes in (DEFAULT_MODES, ("structured", "image+text"), ("structured", "text"))
        # What is shown does not depend on the strategy, and test_worlds_that_ask runs the first one with the defaults
        if (modes == DEFAULT_MODES) == (prompt_format != strategies[0])
    ],
)
@pytest.mark.sample(6)
def test_every_strategy_of_worlds_that_ask(env_id: str, prompt_format: str, representation: str, obs_mode: str) -> None:
    kwargs = {"prompt_format": prompt_format, "representation": representation, "obs_mode": obs_mode}
    skip = INDEPENDENT if (representation, obs_mode) == DEFAULT_MODES else (*INDEPENDENT, HOSTILE)
    check_world(env_id, skip=skip, **kwargs, **ASKING[env_id][1])


@pytest.mark.parametrize("env_id", quick(ASKING, *(env_id for env_id in ASKING if env_id != "VLM/DocQA-v0")))
def test_worlds_that_ask(env_id: str) -> None:
    """With their defaults, a minute each, `make soak` checks them, and that their splits are disjoint."""
    skip = ("splits_are_disjoint",)
    results = check_world(env_id, split="test", skip=skip, **ASKING[env_id][1])
    assert {result.name for result in results if result.skipped} <= {"action_limit_is_kept", *skip}


@pytest.mark.parametrize("env_id", FAST)
@pytest.mark.parametrize("obs_mode", OBS_MODES)
def test_every_mode_is_a_gymnasium_env(env_id: str, obs_mode: str) -> None:
    others = [HOSTILE, *(name for name in INDEPENDENT if name != "is_a_gymnasium_env")]
    check_world(env_id, skip=others, obs_mode=obs_mode, prompt_format="no_think", format_reward=0.0)


@pytest.mark.parametrize(
    ("env_id", "obs_mode"),
    [*itertools.product(FAST, OBS_MODES), *((env_id, "image") for env_id in ASKING if env_id != "VLM/DocQA-v0")],
)
@pytest.mark.sample(6)
def test_a_system_message_and_a_reminder(env_id: str, obs_mode: str) -> None:
    _, settings = ASKING.get(env_id, ((), {}))
    # Gymnasium draws seven levels anew. That each observation is in its space, with its message, is checked besides
    skip = [name for name in INDEPENDENT if env_id != "VLM/FrozenLake-v0" or name != "is_a_gymnasium_env"]
    check_world(env_id, skip=[HOSTILE, *skip], obs_mode=obs_mode, **INSTRUCTED, **settings)


@pytest.mark.parametrize("env_id", [*FAST, "VLM/PrimitiveSkill-v0", *ASKING])
def test_a_system_message_and_a_reminder_change_no_more_than_words(env_id: str) -> None:
    """The instructions are the same wherever they stand, once; responses are read, and rewarded, the same."""
    _, settings = ASKING.get(env_id, ((), {}))
    plain, instructed = (vlm_envs.make(env_id, **settings, **more).unwrapped for more in ({}, INSTRUCTED))
    (shown, told), (other, other_told) = plain.reset(seed=3), instructed.reset(seed=3)
    instructions = other["system"]
    assert instructions and shown["text"].startswith(instructions)
    first, *level = other["text"].removesuffix(_reminder(instructed)).rstrip("\n").split("\n")
    assert first == f"Turn 1 of {plain.max_turns}."
    assert "\n".join([instructions, *level]) == shown["text"]
    plan = plain.dynamics.plan(plain.state) or ()
    responses = ["no tags", *([plain.write_response(plan[: plain.max_actions_per_turn])] if plan else [])]
    over = False
    for response in responses[-plain.max_turns :]:
        if over:
            break
        told, other_told = plain.step(response), instructed.step(response)
        over = told[2] or told[3]
        assert other_told[0]["system"] == ""
        reminder = "" if over else f"\n{_reminder(instructed)}"
        assert other_told[0]["text"] == told[0]["text"] + reminder
        assert told[1:4] == other_told[1:4]
        assert told[4]["parse_error"] == other_told[4]["parse_error"] and told[4]["actions"] == other_told[4]["actions"]
    plain.close()
    instructed.close()


def _reminder(world: World[Any, Any]) -> str:
    """Returns what ends an observation: the format that is expected now, with the number of actions before it."""
    several = world.max_actions_per_turn > 1
    limit = f"At most {world.max_actions_per_turn} actions, separated by '{world.task.grammar.separator}'. "
    skeletons = " or: ".join(world.turn_format.skeletons(world.task.section_meaning))
    return f"{limit if several else ''}Respond with exactly: {skeletons}"


@pytest.mark.parametrize(("env_id", "kwargs", "skip"), VARIANTS)
def test_variants(env_id: str, kwargs: dict[str, object], skip: tuple[str, ...]) -> None:
    check_world(env_id, skip=skip, **kwargs)
