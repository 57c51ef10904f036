"""The clauses of the contract. Each is a function of a `WorldUnderTest`; its docstring is the clause it checks."""

from __future__ import annotations

import copy
import hashlib
import math
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import gymnasium as gym
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from vlm_envs.errors import ConfigError, EpisodeOverError, GenerationError, LevelError, WorldContractError
from vlm_envs.splits import SPLITS, split_seeds
from vlm_envs.testing.world_under_test import (
    BAD_RESPONSES,
    EPISODE_SEED,
    TOLERANCE,
    AnyWorld,
    Move,
    NotApplicableError,
    Planner,
    WorldUnderTest,
    actions_per_turn,
    digest_elsewhere,
    episode_digest,
    expect_error,
    first_seed,
    has_planner,
    hostile_answers_are_data,
    moves,
    oracle_responses,
    require,
    require_explained,
    require_level_errors,
    rest_of_episode,
    transitions,
)
from vlm_envs.trajectory import Observation, observation_images, observation_words

INFO_TYPES: dict[str, type | tuple[type, ...]] = {
    "success": bool,
    "metrics": dict,
    "reward_terms": dict,
    "state_text": str,
    "seen_sections": dict,
    "state": dict,
    "representation": str,
    "prompt_format": str,
    "reading": str,
    "state_hash": str,
    "action_valid": bool,
    "action_effective": bool,
    "actions_read": bool,
    "format_correct": bool,
    "parse_error": (str, type(None)),
    "unread": str,
    "sections": dict,
    "actions": tuple,
    "turn": int,
}
"""Keys that every `info` contains, at reset and at every step, and the types of their values."""

NUM_ORACLE_SEEDS = 4
NUM_PLAYED_LEVELS = 64
"""Number of levels on which states are saved and plans compared; `NUM_ENGINE_LEVELS` if an engine executes
each step."""
NUM_ENGINE_LEVELS = 2
MAX_RANDOM_ACTIONS = 24
NUM_SPLIT_LEVELS = 64
NUM_DESCRIBED_LEVELS = 16


def is_a_gymnasium_env(under_test: WorldUnderTest) -> None:
    """Gymnasium's own `check_env` passes without a warning."""
    world = under_test.make()
    if world.max_turns < 2:
        raise NotApplicableError("check_env requires a first step that does not truncate; this world has one turn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(world)


def info_is_complete(under_test: WorldUnderTest) -> None:
    """`info` has every key of `INFO_TYPES`, with the right types, at reset and at every step."""
    for where, _, _, info in transitions(under_test.make(), under_test.planner):
        for key, expected in INFO_TYPES.items():
            require(key in info, f"{where}: info lacks {key!r}")
            came = type(info[key])
            require(isinstance(info[key], expected), f"{where}: info[{key!r}] should be {expected}, is {came}")


def observations_are_in_their_space(under_test: WorldUnderTest) -> None:
    """Every observation is in `observation_space`, which has text, and an image unless the mode is `text`."""
    world = under_test.make()
    parts = {*cast("spaces.Dict", world.observation_space).spaces}
    has_image = bool(parts & {"image", "images"})
    require("text" in parts and has_image == (world.obs_mode != "text"), f"observation_space has {sorted(parts)}")
    for where, observation, _, _ in transitions(world, under_test.planner):
        require(observation in world.observation_space, f"{where}: not in {world.observation_space}")


def reward_terms_sum_to_the_reward(under_test: WorldUnderTest) -> None:
    """`info["reward_terms"]` sums to the reward of each step."""
    for where, _, reward, info in transitions(under_test.make(), under_test.planner):
        terms = info["reward_terms"]
        require(abs(sum(terms.values()) - reward) < TOLERANCE, f"{where}: {terms} do not sum to {reward}")


def bad_responses_are_data(under_test: WorldUnderTest) -> None:
    """No response raises; invalid ones earn no format reward, are explained, and have no effect unless read."""
    for name, response in BAD_RESPONSES.items():
        world = under_test.make()
        _, before = world.reset(seed=first_seed(world))
        observation, reward, _, _, info = world.step(response)
        require_explained(world, name, before, observation, float(reward), info)


def actions_are_read_back(under_test: WorldUnderTest) -> None:
    """The grammar reads every action name and the output of `write_action`; words and integers as the same action."""
    world = under_test.make()
    grammar, write_action = world.task.grammar, world.task.write_action
    world.reset(seed=first_seed(world))
    actions = [*(under_test.planner.plan(world) or ())]
    for name in world.task.action_names or ():
        action = grammar.parse(name)
        require(action is not None, f"`grammar.parse({name!r})` returned None, but {name!r} is in `action_names`")
        actions.append(action)
    thoughts = dict.fromkeys(world.turn_format.sections, "")
    for action in actions:
        if "answer" not in world.task.action_sections((action,), thoughts):
            continue  # tool calls, which are read in their own section
        written = write_action(action)
        read = grammar.parse(written)
        is_plain = isinstance(action, str | int)  # others may not be comparable, or are rounded when written
        require(
            read == action if is_plain else read is not None,
            f"`write_action({action!r})` returned {written!r}, which `grammar.parse` reads as {read!r}",
        )


def oracle_is_maximal(under_test: WorldUnderTest) -> None:
    """Plans fit the limits and succeed, each action reduces the distance by one, and they earn `task.best_return`."""
    world = under_test.make()
    _require_planner(world)
    _require_plans_fit(_without_images(under_test, world.split), under_test.planner)
    for seed in split_seeds(world.split, NUM_ORACLE_SEEDS):
        world.reset(seed=seed)
        start = world.state
        plan = _plan_of(under_test, world)
        require(world.optimal_actions_left() == len(plan), f"seed {seed}: optimal_actions_left() is wrong")
        total, num_left, terminated, truncated = 0.0, len(plan), False, False
        for response in oracle_responses(world, plan):
            require(not (terminated or truncated), f"seed {seed}: the episode ends before its plan does")
            _, _, terminated, truncated, info = world.step(response)
            require(info["format_correct"], f"seed {seed}: {response!r} is rejected: {info['parse_error']}")
            total += sum(value for name, value in info["reward_terms"].items() if name != "format")
            num_left -= len(info["actions"])
            left = world.optimal_actions_left()
            require(left == num_left, f"seed {seed}: optimal_actions_left() is {left}, the plan has {num_left}")
        best = world.task.best_return(start, len(plan))
        require(info["success"], f"seed {seed}: the plan does not succeed")
        require(terminated == world.dynamics.is_over(world.state), f"seed {seed}: terminated is {terminated}")
        require(abs(total - best) < TOLERANCE, f"seed {seed}: the plan earns {total}, best_return is {best}")


def plans_are_shortest(under_test: WorldUnderTest) -> None:
    """Every generated level has a plan; each of its actions reduces the distance by one, and no action by more."""
    planner, world = under_test.planner, _without_images(under_test, under_test.make().split)
    dynamics = world.dynamics
    _require_planner(world)
    for move in _played(world, planner, are_solvable=True):
        if not dynamics.plans_are_shortest:
            continue
        cost, cost_after = planner.cost_to_go(dynamics, move.before), planner.cost_to_go(dynamics, move.after)
        if cost is None or cost_after is None:
            continue
        require(
            cost <= cost_after + 1 and (not move.is_planned or cost_after == cost - 1),
            f"{move.where}: the plan has {cost} actions; after {move.action}, {cost_after} actions"
            f"{', although this is its next action' * move.is_planned}, so {cost_after + 1} would be enough. If "
            "actions may fail by chance, or plans may be longer, set plans_are_shortest = False in the dynamics.",
        )


def _played(world: AnyWorld, planner: Planner, *, are_solvable: bool = False) -> Iterator[Move]:
    """Yields moves of many levels; raises `WorldContractError` for a level without a plan if `are_solvable`."""
    dynamics = world.dynamics
    for seed in _seeds(world):
        world.reset(seed=seed)
        require(
            not are_solvable or planner.cost_to_go(dynamics, world.state) != math.inf,
            f"seed {seed}: the level cannot be solved, as `plan` returns None at its start. Make `generate` draw "
            f"another, or make `plan` raise SolverLimitError if it cannot decide:\n{dynamics.dump(world.state)}",
        )
        num_random = min(MAX_RANDOM_ACTIONS, world.max_turns * world.max_actions_per_turn)
        yield from moves(world, seed, planner.plan(world) or (), num_random)


def _seeds(world: AnyWorld) -> Iterator[int]:
    """Returns the seeds of the levels whose states and plans are checked."""
    return split_seeds(world.split, NUM_PLAYED_LEVELS if world.dynamics.steps_are_cheap else NUM_ENGINE_LEVELS)


def _require_planner(world: AnyWorld) -> None:
    if not has_planner(world):
        raise NotApplicableError("the world has no planner")


def _plan_of(under_test: WorldUnderTest, world: AnyWorld) -> tuple[Any, ...]:
    """Returns a plan for the current state; raises `NotApplicableError` if there is none."""
    _require_planner(world)
    plan = under_test.planner.plan(world)
    if plan is None:
        raise NotApplicableError("the planner stops at its limit, or there is no plan")
    return plan


def _require_plans_fit(world: AnyWorld, planner: Planner) -> None:
    """Raises `WorldContractError` unless the plans of many levels fit into an episode."""
    per_turn = actions_per_turn(world)
    most = min(world.max_turns * per_turn, world.max_steps or math.inf)
    lengths: dict[int, int] = {}
    for seed in _seeds(world):
        world.reset(seed=seed)
        lengths[seed] = len(planner.plan(world) or ())
    num_long = sum(length > most for length in lengths.values())
    longest = max(lengths.values())
    needed = f"max_turns={-(-longest // per_turn)} with {per_turn} actions per turn and no max_steps below {longest}"
    require(
        not num_long,
        f"{num_long} of {len(lengths)} levels cannot be solved within {most} actions. The longest plan, for seed "
        f"{max(lengths, key=lengths.__getitem__)}, has {longest} and needs {needed}. Draw easier levels, or raise "
        "the "
        "defaults in your world's constructor",
    )


def noop_earns_the_floor(under_test: WorldUnderTest) -> None:
    """Empty responses earn `noop_terms` each turn, and the episode is truncated, not terminated, at `max_turns`."""
    world = under_test.make()
    world.reset(seed=first_seed(world))
    floor = sum(world.task.noop_terms().values())
    for turn in range(1, world.max_turns + 1):
        _, reward, terminated, truncated, info = world.step("")
        where = f"turn {turn} of {world.max_turns}"
        require(abs(reward - floor) < TOLERANCE, f"{where}: a no-op earns {reward}, noop_terms say {floor}")
        require(not terminated and not info["success"], f"{where}: an empty response terminates or solves the episode")
        require(truncated == (turn == world.max_turns), f"{where}: truncated is {truncated}")


def action_limit_is_kept(under_test: WorldUnderTest) -> None:
    """A longer list of actions is cut off after `max_actions_per_turn` without losing the format reward."""
    world = under_test.make()
    limit = world.max_actions_per_turn
    if not world.task.grammar.separator:
        raise NotApplicableError("a turn has one action")
    world.reset(seed=first_seed(world))
    plan = _plan_of(under_test, world)
    _, _, _, _, info = world.step(world.write_response(plan[:1] * (limit + 3)))
    require(info["format_correct"], f"the longer list is rejected: {info['parse_error']}")
    require(len(info["actions"]) <= limit, f"{len(info['actions'])} actions carried out, the limit is {limit}")


def same_seed_gives_the_same_bytes(under_test: WorldUnderTest) -> None:
    """The same seed gives the same episode, byte for byte, in any process and with any `PYTHONHASHSEED`."""
    here = episode_digest(under_test.make(), EPISODE_SEED, under_test.planner)
    again = episode_digest(under_test.make(), EPISODE_SEED, under_test.planner)
    require(again == here, "two episodes of one process differ")
    entry_point = gym.spec(under_test.env_id.removeprefix("vlm_envs:")).entry_point
    if not isinstance(entry_point, str):
        raise NotApplicableError("another process can create a world only from a string entry point")
    require(digest_elsewhere(under_test, entry_point) == here, "another process shows a different episode")


def copies_continue_identically(under_test: WorldUnderTest) -> None:
    """A pickled or deep-copied world continues in mid-episode exactly as the original does."""
    world = under_test.make()
    world.reset(seed=first_seed(world))
    if world.max_turns > 1:
        world.step("")
    twins = {"pickle": pickle.loads(pickle.dumps(world)), "deepcopy": copy.deepcopy(world)}
    expected = rest_of_episode(world, under_test.planner)
    for how, twin in twins.items():
        continued = rest_of_episode(twin, under_test.planner)
        require(continued == expected, f"the copy made by {how} continues differently")


def levels_round_trip(under_test: WorldUnderTest) -> None:
    """The text of a level loads the same state and the same start of an episode; so do states reached during play."""
    world = under_test.make()
    for seed in split_seeds(world.split, NUM_ORACLE_SEEDS):
        observation, info = world.reset(seed=seed)
        state, level = world.state, world.dynamics.dump(world.state)
        loaded, loaded_info = world.reset(options={"level": level})
        _require_equal_states(world.state, state, f"seed {seed}: the dumped level loads as another state:\n{level}\n")
        require(world.dynamics.dump(world.state) == level, f"seed {seed}: the loaded level dumps differently")
        require(
            observation_words(loaded) == observation_words(observation),
            f"seed {seed}: the loaded level starts differently",
        )
        require(loaded_info["state_hash"] == info["state_hash"], f"seed {seed}: the state_hash differs")
    _require_states_load(under_test)


def _require_states_load(under_test: WorldUnderTest) -> None:
    """Raises `WorldContractError` unless states reached by play can be loaded, except ended or unsolvable ones."""
    world = _without_images(under_test, under_test.make().split)
    dynamics = world.dynamics
    for move in _played(world, under_test.planner):
        state = move.after
        if dynamics.is_over(state) or dynamics.is_out_of_time(state):
            continue
        if has_planner(world) and under_test.planner.cost_to_go(dynamics, state) == math.inf:
            continue
        level = dynamics.dump(state)
        try:
            loaded = dynamics.load(level)
        except LevelError as error:
            raise WorldContractError(
                f"{move.where_after}: `load` rejects the state that `step` leads to: {error}"
            ) from error
        dumped = dynamics.dump(loaded)
        require(dumped == level, f"{move.where_after}: the state's text loads as another level:\n{level}\n{dumped}\n")
        if level != dynamics.dump(world.state):  # else the text names only the level, as for questions
            _require_equal_states(
                loaded, state, f"{move.where_after}: the state's text loads as another state:\n{level}\n"
            )


def _require_equal_states(first: object, second: object, message: str) -> None:
    try:
        is_equal = bool(first == second)
    except (Exception, SystemExit) as error:
        raise WorldContractError(
            f"states are compared with `==`, which raises {type(error).__name__} for {type(first).__name__}: "
            f"{error}. "
            "Use tuples and frozen dataclasses of them in place of arrays"
        ) from error
    require(
        is_equal, f"{message}(states are compared with `==`; a class of your own needs __eq__, as dataclasses have)"
    )


def splits_are_disjoint(under_test: WorldUnderTest) -> None:
    """Each level generated for train, val, or test belongs to that split and occurs in no other."""
    keys: dict[str, set[bytes]] = {}
    if not under_test.make().dynamics.splits_differ:
        raise NotApplicableError("the seed has too little effect for each split to have its own levels")
    for split in SPLITS:
        world = _without_images(under_test, split)
        is_listed = world.dynamics.num_levels("test") is not None
        keys[split] = _drawn_keys(world, is_listed=is_listed)
        require(is_listed or len(keys[split]) > 1, f"{NUM_SPLIT_LEVELS} seeds of split {split!r} all give one level")
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        shared = keys[first] & keys[second]
        require(not shared, f"{first} and {second} share {len(shared)} levels, e.g. {next(iter(shared), b'')!r}")


def _drawn_keys(world: AnyWorld, *, is_listed: bool) -> set[bytes]:
    """Returns the keys of the levels of the world's split; raises `WorldContractError` if any is in another."""
    dynamics, keys, strays, is_asked = world.dynamics, set[bytes](), list[str](), True
    for seed in split_seeds(world.split, NUM_SPLIT_LEVELS):
        try:
            world.reset(seed=seed)
        except GenerationError:
            if is_listed:  # a dataset may contain nothing for a split
                break
            raise
        keys.add(dynamics.level_key(world.state))
        owner = dynamics.level_split(level := dynamics.dump(world.state)) if is_asked else None
        is_asked = owner is not None
        if owner not in (None, world.split):
            strays.append(f"seed {seed} gives a level of {owner!r}:\n{level}")
    require(
        not strays,
        f"{len(strays)} of {NUM_SPLIT_LEVELS} levels that `generate` returned for split {world.split!r} belong to "
        "another split. Make it try again until `split_of(self.level_key(state)) == split`, or override "
        "`level_split` "
        f"if your world splits levels by another rule. For example, {next(iter(strays), '')}",
    )
    return keys


def _without_images(under_test: WorldUnderTest, split: str) -> AnyWorld:
    """Returns a world that draws no images if it has the mode `text`, since many levels are drawn."""
    try:
        return under_test.make(split=split, obs_mode="text")
    except ConfigError:
        return under_test.make(split=split)


def ground_truth_is_where_it_belongs(under_test: WorldUnderTest) -> None:
    """Text modes show the state in words, and no part of it leaks into the text of image mode.

    In the mode `image+description`, the text contains the true description, if there is one.
    """
    world = under_test.make()
    seeds = list(split_seeds(world.split, NUM_ORACLE_SEEDS))
    texts, states = [], []
    for seed in seeds:
        observation, info = world.reset(seed=seed)
        is_shown = info["state_text"] in observation["text"]
        require(is_shown or "text" not in world.obs_mode, f"seed {seed}: the text does not show the state")
        if world.obs_mode == "image+description":
            is_described = world.true_description in observation["text"]
            require(is_described, f"seed {seed}: the text does not contain the true description")
        texts.append(_untold(world, observation_words(observation)))
        states.append(info["state_text"])
    if world.obs_mode != "image":
        return
    for seed, text, state_text in zip(seeds, texts, states, strict=True):
        # The instructions may show an example that happens to be true; only text that depends on the level is
        # a leak
        leaks = [p for p in _pieces(state_text) if p in text and not all(p in other for other in texts)]
        require(not leaks, f"seed {seed}: the first text reveals {leaks}")
    for where, shown_now, _, info in transitions(world, under_test.planner):
        if where != "reset":
            text = _untold(world, observation_words(shown_now))
            leaks = [piece for piece in _pieces(info["state_text"]) if piece in text]
            require(not leaks, f"{where}: the text reveals {leaks}")


def true_description_is_visible(under_test: WorldUnderTest) -> None:
    """`true_description` is the same whenever the image, the instruction, and the hint are the same."""
    world = under_test.make()
    if world.obs_mode == "text":
        raise NotApplicableError("the mode text has no image")
    described: dict[bytes, str] = {}
    instructions: set[str] = set()
    for seed in split_seeds(world.split, NUM_DESCRIBED_LEVELS):
        _require_visible(world, world.reset(seed=seed)[0], described)
        instructions.add(world.task.instruction(world.state))
        if len(instructions) > 1:
            break  # levels with different instructions are not compared, and may be slow to draw
    for _, observation, _, _ in transitions(world, under_test.planner):
        _require_visible(world, observation, described)


def _require_visible(world: AnyWorld, observation: Observation, described: dict[bytes, str]) -> None:
    """Raises `WorldContractError` if the same observation has different descriptions."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (world.task.instruction(world.state), world.task.hint(world.state)):
        digest.update(f"{len(part)} {part}".encode("utf-8", "surrogatepass"))
    for image in observation_images(observation):
        digest.update(f"{image.shape}".encode() + image.tobytes())
    now = world.true_description
    before = described.setdefault(digest.digest(), now)
    require(
        before == now,
        f"two states show the same image, but `true_description` is {before!r} for one and {now!r} for the other. "
        "Describe only what the image shows",
    )


def _untold(world: AnyWorld, text: str) -> str:
    """Returns an observation's text without the instruction and the hint, which the task shows on purpose."""
    for part in filter(None, (world.task.instruction(world.state), world.task.hint(world.state))):
        text = text.replace(part, "")
    return text


def _pieces(state_text: str) -> set[str]:
    """Returns texts that would reveal a state: its whole text, lines, sentences, and coordinates."""
    lines = state_text.split("\n")
    sentences = [sentence.strip(" .") for line in lines for sentence in line.split(". ")]
    coordinates = re.findall(r"\(\s*-?\d+(?:\s*,\s*-?\d+)+\s*\)", state_text)
    return {piece for piece in (state_text, *lines, *sentences, *coordinates) if len(piece) >= 3}


def misuse_is_explained(under_test: WorldUnderTest) -> None:
    """Unknown arguments, options, and levels, and steps outside an episode, raise this package's errors."""
    world = under_test.make()
    expect_error(EpisodeOverError, "a step before reset", lambda: world.step(""))
    expect_error(ConfigError, "an unknown reset option", lambda: world.reset(options={"levle": ""}))
    expect_error(LevelError, "an unreadable level", lambda: world.reset(options={"level": "\ud800?"}))
    require_level_errors(world)
    names = ("prompt_format", "representation", "obs_mode", "split")
    wrong = {**dict.fromkeys(names, "nonsense"), "max_turns": 0, "max_actions_per_turn": 0}
    for name, value in wrong.items():
        expect_error(ConfigError, f"{name}={value!r}", partial(under_test.make, **{name: value}))
    world.reset(seed=first_seed(world))
    for _ in range(world.max_turns):
        world.step("")
    expect_error(EpisodeOverError, "a step after the end", lambda: world.step(""))


CHECKS: tuple[Callable[[WorldUnderTest], None], ...] = (
    is_a_gymnasium_env,
    info_is_complete,
    observations_are_in_their_space,
    reward_terms_sum_to_the_reward,
    bad_responses_are_data,
    hostile_answers_are_data,
    actions_are_read_back,
    oracle_is_maximal,
    plans_are_shortest,
    noop_earns_the_floor,
    action_limit_is_kept,
    same_seed_gives_the_same_bytes,
    copies_continue_identically,
    levels_round_trip,
    splits_are_disjoint,
    ground_truth_is_where_it_belongs,
    true_description_is_visible,
    misuse_is_explained,
)
"""Every clause of the contract, in the order in which they are checked."""
