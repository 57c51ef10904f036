"""Instructions with a draft that satisfies all constraints, and drafts that break exactly one."""

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from tests.unit.slow import quick
from vlm_envs.tools.instruction_checkers import CHECKERS
from vlm_envs.tools.instruction_texts import PLANS
from vlm_envs.tools.instructions import MAX_CONSTRAINTS, Instruction, draw_broken, draw_instruction
from vlm_envs.tools.text_profiles import ARM, PROFILES


def instructions(profile=ARM, count=300) -> list[tuple[np.random.Generator, Instruction]]:
    """Returns what the first seeds draw, with the generators to go on with."""
    rngs = [np.random.default_rng(seed) for seed in range(count)]
    drawn = [(rng, draw_instruction(rng, profile, 1 + seed % MAX_CONSTRAINTS)) for seed, rng in enumerate(rngs)]
    return [(rng, instruction) for rng, instruction in drawn if instruction is not None]


def test_every_check_has_a_plan():
    assert set(PLANS) == set(CHECKERS)


@pytest.mark.parametrize("profile", quick(PROFILES.values(), next(iter(PROFILES.values()))), ids=PROFILES)
@pytest.mark.soak
def test_every_check_can_be_the_only_one_that_fails(profile):
    broken = set()
    for rng, instruction in instructions(profile):
        for index, constraint in enumerate(instruction.constraints):
            draft = draw_broken(rng, instruction, index)
            if draft is not None:
                assert instruction.failed(draft) == [index]
                broken.add(constraint.checker)
    assert broken == set(CHECKERS)


def test_constraints_are_about_different_things():
    drawn = [instruction for _, instruction in instructions(count=100)]
    assert {len(instruction.constraints) for instruction in drawn} == set(range(1, MAX_CONSTRAINTS + 1))
    for instruction in drawn:
        groups = [group for item in instruction.constraints for group in PLANS[item.checker].groups]
        assert len(groups) == len(set(groups))


def test_equal_generators_give_equal_instructions_and_other_seeds_others():
    first, second = ([instruction for _, instruction in instructions(count=20)] for _ in range(2))
    assert first == second
    assert len({instruction.draft.text() for instruction in first}) == len(first)


def test_the_text_asks_for_every_constraint():
    for _, instruction in instructions(count=10):
        task, _, *lines = instruction.text.splitlines()
        assert task.startswith("Describe ")
        expected = [f"{number}. {item.requirement()}" for number, item in enumerate(instruction.constraints, start=1)]
        assert lines == expected
