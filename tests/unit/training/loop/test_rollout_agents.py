"""Who acts in a run: in every process of it an agent that draws numbers of its own."""

from __future__ import annotations

import copy

import pytest

from tests.unit.training.batches import run_config
from tests.unit.training.update.test_micro_batches import OneOfSeveral
from training.algorithms.grpo import GRPO
from training.loop.trainer import Trainer


@pytest.mark.parametrize("rollout", ["barrier", "async"])
def test_no_process_samples_as_another_does(tiny, tmp_path, rollout):
    model, encoder = tiny
    config = run_config(algorithm=GRPO(), rollout=rollout, seed=5)

    def seeds_of(rank: int, num_processes: int) -> list[int]:
        engine = OneOfSeveral(rank, num_processes)
        trainer = Trainer(config, copy.deepcopy(model), encoder, tmp_path, None, engine)
        resumed = trainer.state_dict() | {"agent": None, "torch_rng": None}  # of a process that was not there
        agents = [trainer.agent, trainer._actors.agent(trainer.learner.acting_policy(), seed=config.seed + 1)]
        trainer.load_state_dict(resumed)
        return [agent.seed for agent in (*agents, trainer.agent)]

    training, evaluation, again = zip(*(seeds_of(rank, 3) for rank in range(3)), strict=True)
    assert len({*training, *evaluation}) == 6
    assert len({*again}) == 3
    assert [training[0], evaluation[0]] == seeds_of(0, 1)[:2] == [5, 6], "the main process as one alone"
