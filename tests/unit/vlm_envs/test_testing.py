"""`check_world`: a sound world passes, and each broken one fails the clause it breaks."""

from __future__ import annotations

import functools
import itertools
import json
import re
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.vlm_envs.corridor import (
    CorridorDynamics,
    CorridorState,
    CorridorTask,
    CorridorView,
    CorridorWorld,
)
from vlm_envs.errors import ConfigError, LevelError, SolverLimitError, WorldContractError
from vlm_envs.parts import Dynamics, Task
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.testing.checks import CHECKS, actions_are_read_back
from vlm_envs.testing.contract import check_world, run_checks
from vlm_envs.testing.world_under_test import Planner, WorldUnderTest
from vlm_envs.world import World

HOSTILE_CHECK = "hostile_answers_are_data"
PROCESS_CHECK = "same_seed_gives_the_same_bytes"


class GlobalRandomDynamics(CorridorDynamics):
    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        return super().generate(np.random.default_rng(), split)


class OneSplitDynamics(CorridorDynamics):
    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        return CorridorState(player=0, goal=int(rng.integers(2, 6)))


class LongPlanDynamics(CorridorDynamics):
    def plan(self, state: CorridorState) -> tuple[int, ...]:
        return () if self.is_success(state) else (-1, 1, *super().plan(state))


class RoundaboutDynamics(CorridorDynamics):
    """Plans that are longer than needed from one cell only, where they start away from the goal."""

    def plan(self, state: CorridorState) -> tuple[int, ...]:
        plan = super().plan(state)
        return (-plan[0], plan[0], *plan) if len(plan) > 1 and state.player == 20 else plan


class PessimisticDynamics(CorridorDynamics):
    """Sees no plan from states that have one."""

    def plan(self, state: CorridorState) -> tuple[int, ...] | None:
        return None if abs(state.goal - state.player) > 6 else super().plan(state)


class SomeUnsolvableDynamics(CorridorDynamics):
    """A quarter of its levels have a goal beyond a wall that the player cannot pass."""

    def plan(self, state: CorridorState) -> tuple[int, ...] | None:
        return None if state.goal % 4 == 0 else super().plan(state)


class EndlessDynamics(CorridorDynamics):
    """A corridor whose ends do not stop the player, while its levels have ends."""

    def load(self, level: str) -> CorridorState:
        state = super().load(level)
        if not 0 <= state.player < 40:
            raise LevelError(f"The player must be in one of 40 cells; got {level!r}.")
        return state

    def step(self, state: CorridorState, action: int, rng: np.random.Generator) -> tuple[CorridorState, bool]:
        return replace(state, player=state.player + action), True


@dataclass(frozen=True, kw_only=True)
class TiredState(CorridorState):
    num_moves: int = 0


class UnsavedDynamics(CorridorDynamics):
    """Its level text leaves out a part of the state that changes in play."""

    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        return TiredState(**vars(super().generate(rng, split)))

    def load(self, level: str) -> CorridorState:
        return TiredState(**vars(super().load(level)))

    def step(self, state: CorridorState, action: int, rng: np.random.Generator) -> tuple[CorridorState, bool]:
        moved, changed = super().step(state, action, rng)
        return replace(moved, num_moves=state.num_moves + 1), changed  # type: ignore[call-arg]


class ForgetfulDynamics(CorridorDynamics):
    def load(self, level: str) -> CorridorState:
        return CorridorState(player=0, goal=super().load(level).goal)


class TrustingDynamics(CorridorDynamics):
    """Reads levels without asking how large their numbers are."""

    def load(self, level: str) -> CorridorState:
        if not re.fullmatch("[0-9]+ [0-9]+", level):
            raise LevelError(f"A corridor is two cell numbers; got {level!r}.")
        player, goal = (list(range(40))[int(number)] for number in level.split())
        return CorridorState(player=player, goal=goal)


class SharedBufferView(CorridorView):
    def __init__(self) -> None:
        self.buffer = np.zeros((2, 80, 3), np.uint8)

    def image(self, state: CorridorState) -> npt.NDArray[np.uint8]:
        self.buffer[:] = super().image(state)
        return self.buffer


class SetView(CorridorView):
    """Its state depends on the order of a set of strings, which differs between processes."""

    def structured(self, state: CorridorState) -> dict[str, Any]:
        return {"cells": list({f"cell{number}" for number in range(20)})}


class GenerousTask(CorridorTask):
    def best_return(self, state: CorridorState, num_actions: int) -> float:
        return 11.0 - 0.1 * num_actions


class IntTask(CorridorTask):
    """Its parser raises for what is no number, and lets any number through."""

    grammar = ActionGrammar(parse=lambda text: int(text), expected="-1 or 1")
    action_names = ("-1", "1")

    def write_action(self, action: int) -> str:
        return str(action)


class IndexTask(IntTask):
    grammar = ActionGrammar(parse=lambda text: int(text) if re.fullmatch("-?[0-9]{1,99}", text) else None, expected="1")


class ExitingTask(IntTask):
    grammar = ActionGrammar(parse=lambda text: int(text) if text in ("1", "-1") else sys.exit(3), expected="1 or -1")


class DigitTask(IntTask):
    grammar = ActionGrammar(parse=lambda text: int(text) if text.isdigit() else None, expected="1")


class CoordinateTask(IntTask):
    """Reads what is between parentheses without a doubt."""

    grammar = ActionGrammar(
        parse=lambda text: int(text[5:-1]) if text.startswith("walk(") else None, separator="", expected="walk(1)"
    )
    action_names = ("walk(-1)", "walk(1)")

    def write_action(self, action: int) -> str:
        return f"walk({action})"


class JsonTask(IntTask):
    """Its parser handles text that is not JSON, but not JSON that is too deep."""

    grammar = ActionGrammar(parse=lambda text: JsonTask.read(text), separator="", expected="1")

    @staticmethod
    def read(text: str) -> int | None:
        try:
            return json.loads(text) if json.loads(text) in (-1, 1) else None
        except ValueError:
            return None


class FirstLetterTask(CorridorTask):
    grammar = ActionGrammar(parse=lambda text: {"l": -1, "r": 1}.get(text[0].lower()), expected="Left or Right")


class UnlistedTask(CorridorTask):
    grammar = ActionGrammar(parse=lambda text: None, expected="Left or Right")


class SwappedTask(CorridorTask):
    def write_action(self, action: int) -> str:
        return "Left" if action > 0 else "Right"


class HiddenGoalView(CorridorView):
    """Describes a goal that it does not draw."""

    def image(self, state: CorridorState) -> npt.NDArray[np.uint8]:
        return super().image(replace(state, goal=state.player))


class HonestView(HiddenGoalView):
    def true_description(self, state: CorridorState, representation: str) -> str:
        return f"The player is at (0, {state.player})."


class ListDynamics(CorridorDynamics):
    """Fails for actions that its grammar lets through."""

    def step(self, state: CorridorState, action: int, rng: np.random.Generator) -> tuple[CorridorState, bool]:
        return super().step(state, [-1, 0, 1][action + 1], rng)


class UnequalState(CorridorState):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


class UnequalDynamics(CorridorDynamics):
    def load(self, level: str) -> CorridorState:
        return UnequalState(**vars(super().load(level)))


class ExitingDynamics(CorridorDynamics):
    def plan(self, state: CorridorState) -> tuple[int, ...]:
        sys.exit(0)


class ArrayDynamics(CorridorDynamics):
    """Its states are compared element by element."""

    def load(self, level: str) -> Any:
        class State(CorridorState):
            def __eq__(self, other: object) -> Any:
                return np.zeros(2) == np.zeros(2)

        return State(**vars(super().load(level)))


class UnpicklableTask(CorridorTask):
    grammar = ActionGrammar(parse=lambda text: {"left": -1, "right": 1}.get(text.lower()), expected="Left or Right")

    def __init__(self) -> None:
        self.stateful = (number for number in itertools.count())


class IdleIsFreeTask(CorridorTask):
    def noop_terms(self) -> dict[str, float]:
        return {"step": -0.1 if not hasattr(self, "paid") and not setattr(self, "paid", 1) else 0.0}


class LeakyWorld(CorridorWorld):
    def _observe(self, text: str, *args: Any) -> Any:
        return super()._observe(f"{text}\nHint: (0, {self.state.goal})", *args)


class NoTextWorld(CorridorWorld):
    def _observe(self, *args: Any) -> Any:
        observation = super()._observe(*args)
        return {**observation, "text": ""}


class UnpaidWorld(CorridorWorld):
    def step(self, action: str) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, reward + 0.01, *rest


class TerseWorld(CorridorWorld):
    def _info(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        info = super()._info(*args, **kwargs)
        del info["state_text"]
        return info


class CrashingWorld(CorridorWorld):
    def step(self, action: str) -> Any:
        action.encode("utf-8")
        return super().step(action)


def build(
    dynamics: type[CorridorDynamics] = CorridorDynamics,
    view: type[CorridorView] = CorridorView,
    task: type[CorridorTask] = CorridorTask,
    **kwargs: Any,
) -> World[CorridorState, int]:
    world = World(dynamics(), view(), task(), **kwargs)
    world.set_picture_shape((2, 80, 3))
    return world


BROKEN = {
    "global random generator": (functools.partial(build, GlobalRandomDynamics), "is_a_gymnasium_env"),
    "one content for all splits": (functools.partial(build, OneSplitDynamics), "splits_are_disjoint"),
    "plan that is not optimal": (functools.partial(build, LongPlanDynamics), "oracle_is_maximal"),
    "plan that is not shortest from one cell": (functools.partial(build, RoundaboutDynamics), "plans_are_shortest"),
    "plan that is missing for a state": (functools.partial(build, PessimisticDynamics), "plans_are_shortest"),
    "levels that cannot be solved": (functools.partial(build, SomeUnsolvableDynamics), "plans_are_shortest"),
    "states that cannot be loaded": (functools.partial(build, EndlessDynamics), "levels_round_trip"),
    "states that load differently": (functools.partial(build, UnsavedDynamics), "levels_round_trip"),
    "level that loads differently": (functools.partial(build, ForgetfulDynamics), "levels_round_trip"),
    "level that raises": (functools.partial(build, TrustingDynamics), "misuse_is_explained"),
    "reused picture": (functools.partial(build, view=SharedBufferView), "is_a_gymnasium_env"),
    "wrong best_return": (functools.partial(build, task=GenerousTask), "oracle_is_maximal"),
    "unpicklable": (functools.partial(build, task=UnpicklableTask), "copies_continue_identically"),
    "free idling": (functools.partial(build, task=IdleIsFreeTask), "noop_earns_the_floor"),
    "leaked goal": (LeakyWorld, "ground_truth_is_where_it_belongs"),
    "unexplained error": (NoTextWorld, "bad_responses_are_data"),
    "unnamed reward": (UnpaidWorld, "reward_terms_sum_to_the_reward"),
    "missing info": (TerseWorld, "info_is_complete"),
    "parser raises": (functools.partial(build, task=IntTask), HOSTILE_CHECK),
    "parser takes any number": (functools.partial(build, ListDynamics, task=IndexTask), HOSTILE_CHECK),
    "parser asks isdigit": (functools.partial(build, task=DigitTask), HOSTILE_CHECK),
    "parser of coordinates raises": (functools.partial(build, task=CoordinateTask), HOSTILE_CHECK),
    "parser of JSON is too deep": (functools.partial(build, task=JsonTask), HOSTILE_CHECK),
    "parser of nothing raises": (functools.partial(build, task=FirstLetterTask), HOSTILE_CHECK),
    "parser reads nothing": (functools.partial(build, task=UnlistedTask), "actions_are_read_back"),
    "actions are written wrongly": (functools.partial(build, task=SwappedTask), "actions_are_read_back"),
    "goal that is not drawn": (functools.partial(build, view=HiddenGoalView), "true_description_is_visible"),
    "surrogates raise": (CrashingWorld, "bad_responses_are_data"),
}


def test_a_sound_world_passes_every_check(register: Any) -> None:
    env_id = register("tests.unit.vlm_envs.corridor:CorridorWorld")
    results = check_world(env_id)
    assert [result.name for result in results] == [check.__name__ for check in CHECKS]
    assert not [result for result in results if result.skipped]
    assert all(result.clause.endswith(".") for result in results)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_world_fails_the_clause_it_breaks(fault: str, register: Any) -> None:
    entry_point, clause = BROKEN[fault]
    with pytest.raises(WorldContractError, match=f"- {clause}: "):
        check_world(register(entry_point), skip=(PROCESS_CHECK,))


@pytest.mark.parametrize(
    ("dynamics", "check", "expected"),
    [
        (EndlessDynamics, "levels_round_trip", r"seed \d+ \(\d+ \d+\) after (Left|Right)(, (Left|Right))*: .*(-1|40) "),
        (RoundaboutDynamics, "plans_are_shortest", r"seed \d+ \(20 26\): .*8 actions.*Right.*5 actions.* 6 "),
        (SomeUnsolvableDynamics, "plans_are_shortest", r"seed \d+: .*\n\d+ \d+"),
    ],
)
def test_faults_of_states_name_the_level_and_the_actions(
    dynamics: type[CorridorDynamics], check: str, expected: str, register: Any
) -> None:
    with pytest.raises(WorldContractError, match=expected):
        check_world(register(functools.partial(build, dynamics)), skip=only(check))


def test_plans_that_look_first_need_not_be_the_shortest(register: Any) -> None:
    class LookingDynamics(RoundaboutDynamics):
        plans_are_shortest = False

    check_world(register(functools.partial(build, LookingDynamics)), skip=only("plans_are_shortest"))


@pytest.mark.parametrize("name", ["name", "goal", "rules", "grammar", "representation_help"])
def test_a_task_without_a_required_attribute_is_named_with_it(name: str) -> None:
    class HeapTask(Task[CorridorState, int]):
        reward_terms = CorridorTask.reward_terms
        noop_terms = CorridorTask.noop_terms
        best_return = CorridorTask.best_return

    for other in {"name", "goal", "rules", "grammar", "representation_help"} - {name}:
        setattr(HeapTask, other, getattr(CorridorTask, other))
    with pytest.raises(ConfigError, match=f"HeapTask lacks {name}, "):
        World(CorridorDynamics(), CorridorView(), HeapTask())


def test_a_world_that_depends_on_the_hash_seed_fails(register: Any) -> None:
    others = [check.__name__ for check in CHECKS if check.__name__ != PROCESS_CHECK]
    env_id = register("tests.unit.vlm_envs.test_testing:set_world")
    with pytest.raises(WorldContractError, match=f"- {PROCESS_CHECK}: .*another process"):
        check_world(env_id, skip=others)


def set_world(**kwargs: Any) -> World[CorridorState, int]:
    return build(view=SetView, **kwargs)


def test_checks_that_say_nothing_about_a_world_are_reported_as_skipped(register: Any) -> None:
    results = {result.name: result for result in check_world(register(CorridorWorld), max_actions_per_turn=6)}
    assert results[PROCESS_CHECK].skipped == "another process can create a world only from a string entry point"


def test_all_checks_of_plans_give_one_reason_for_a_world_without_a_planner(register: Any) -> None:
    class UnplannedDynamics(CorridorDynamics):
        plan = Dynamics.plan

    of_plans = ("oracle_is_maximal", "plans_are_shortest", "action_limit_is_kept")
    results = check_world(register(functools.partial(build, UnplannedDynamics)), skip=only(*of_plans))
    reasons = {result.skipped for result in results if result.name in of_plans}
    assert len(reasons) == 1 and None not in reasons


def test_unknown_check_name() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'splits_are_disjoint'"):
        check_world("VLM/FrozenLake-v0", skip=("splits_disjoint",))


def only(*names: str) -> tuple[str, ...]:
    """Returns the names of all other checks, to be skipped."""
    return tuple(check.__name__ for check in CHECKS if check.__name__ not in names)


def test_a_parser_that_raises_is_named_with_its_line_and_the_response(register: Any) -> None:
    with pytest.raises(WorldContractError) as failure:
        check_world(register(functools.partial(build, task=IntTask)), skip=only(HOSTILE_CHECK))
    told = str(failure.value)
    assert "'<answer>abc</answer>'" in told and "test_testing.py, line" in told and "ValueError" in told
    assert "None" in told, "what to return instead"


def test_a_parser_that_exits_fails_like_one_that_raises(register: Any) -> None:
    with pytest.raises(WorldContractError) as failure:
        check_world(register(functools.partial(build, task=ExitingTask)), skip=only(HOSTILE_CHECK))
    message = str(failure.value)
    assert "'<answer>abc</answer>'" in message and "SystemExit" in message


def test_so_does_a_planner(register: Any) -> None:
    with pytest.raises(WorldContractError, match=r"- oracle_is_maximal: .*SystemExit"):
        check_world(register(functools.partial(build, ExitingDynamics)), skip=only("oracle_is_maximal"))


def test_a_world_that_exits_cannot_be_checked(register: Any) -> None:
    with pytest.raises(WorldContractError, match="SystemExit"):
        check_world(register(lambda **_: sys.exit(0)))


def test_a_description_of_what_is_drawn_passes(register: Any) -> None:
    env_id = register(functools.partial(build, view=HonestView))
    check_world(env_id, skip=only("true_description_is_visible"))


def test_a_listed_action_that_the_grammar_does_not_read_is_named(register: Any) -> None:
    world = build(task=UnlistedTask)
    with pytest.raises(ConfigError, match=r"'(Left|Right)'.*action_names"):
        world.task.sample_action(CorridorState(player=0, goal=1), np.random.default_rng(0))
    with pytest.raises(WorldContractError) as failure:
        check_world(register(functools.partial(build, task=UnlistedTask)), skip=(PROCESS_CHECK,))
    assert "AssertionError" not in str(failure.value)


@pytest.mark.parametrize("prompt_format", ["no_think", "free_think"])
def test_hostile_answers_are_in_the_format_of_the_world(prompt_format: str, register: Any) -> None:
    env_id = register(functools.partial(build, task=IntTask))
    with pytest.raises(WorldContractError, match="abc"):
        check_world(env_id, skip=only(HOSTILE_CHECK), prompt_format=prompt_format)


@pytest.mark.parametrize("dynamics", [UnequalDynamics, ArrayDynamics])
def test_states_that_are_not_equal_are_told_how_they_are_compared(dynamics: Any, register: Any) -> None:
    with pytest.raises(WorldContractError, match="states are compared with `==`"):
        check_world(register(functools.partial(build, dynamics)), skip=only("levels_round_trip"))


class CountingDynamics(CorridorDynamics):
    num_plans = 0

    def plan(self, state: CorridorState) -> tuple[int, ...]:
        type(self).num_plans += 1
        return super().plan(state)


class UnhashableDynamics(CountingDynamics):
    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        return UnequalState(**vars(super().generate(rng, split)))


@pytest.mark.parametrize("dynamics", [CountingDynamics, UnhashableDynamics])
def test_a_state_is_planned_once(dynamics: type[CountingDynamics]) -> None:
    world, planner = build(dynamics), Planner()
    world.reset(seed=0)
    before = dynamics.num_plans
    assert planner.plan(world) is planner.plan(world)
    assert dynamics.num_plans == before + 1
    world.step(world.write_response(planner.plan(world)[:1]))
    before = dynamics.num_plans
    assert planner.plan(world) is planner.plan(world)
    assert dynamics.num_plans == before + 1


def test_a_planner_at_its_limit_gives_no_plan() -> None:
    class LimitedDynamics(CorridorDynamics):
        def plan(self, state: CorridorState) -> tuple[int, ...]:
            raise SolverLimitError("too many nodes")

    world = build(LimitedDynamics)
    world.reset(seed=0)
    assert Planner().plan(world) is None


def test_results_come_as_soon_as_they_are_known(register: Any) -> None:
    env_id = register(functools.partial(build, task=GenerousTask))
    results = run_checks(WorldUnderTest(env_id=env_id), skip=(CHECKS[0].__name__,))
    first = next(results)
    assert (first.name, first.skipped) == (CHECKS[0].__name__, "left out by the caller")
    failed = [result for result in results if result.failure]
    assert [result.name for result in failed] == ["oracle_is_maximal"], "the checks after a failed one are run"
    assert isinstance(failed[0].error, WorldContractError)


def test_actions_that_cannot_be_compared_are_only_read():
    def planned(parse):
        task = SimpleNamespace(
            grammar=SimpleNamespace(parse=parse),
            write_action=str,
            action_names=(),
            action_sections=lambda actions, thoughts: {"answer": ""},
        )
        world = SimpleNamespace(
            task=task, split="train", reset=lambda seed: None, turn_format=SimpleNamespace(sections=())
        )
        planner = SimpleNamespace(plan=lambda world: (np.array([1.25, 2.0]),))
        return SimpleNamespace(make=lambda: world, planner=planner)

    actions_are_read_back(planned(lambda text: np.array([1.2, 2.0])))
    with pytest.raises(WorldContractError, match="reads as None"):
        actions_are_read_back(planned(lambda text: None))
