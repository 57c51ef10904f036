"""Training levels: siblings share a start, no seed comes twice, none is an evaluation's."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.oracle import RandomAgent
from tests.unit.episodes import SHORT
from tests.unit.training.batches import WORLD, run_config
from training.algorithms.grpo import GRPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.cold_start_loop import cold_start
from training.cold_start.demonstrations import demonstrations, tokenized
from training.config.world_spec import WorldSpec
from training.loop.collect import Collector
from training.loop.evaluation import evaluate
from vlm_envs.splits import SPLIT_SEEDS
from vlm_envs.vector.vector_world import VectorWorld

MIX = (
    WorldSpec(env_id="VLM/FrozenLake-v0", kwargs=dict(SHORT), weight=2.0),
    WorldSpec(env_id="VLM/Sokoban-v0", kwargs=dict(SHORT), weight=1.0),
)


def test_siblings_share_their_start_and_iterations_share_nothing():
    collector = Collector(run_config(worlds=MIX, num_groups=3, group_size=2))
    seen: set[tuple[str, int]] = set()
    for iteration in range(4):
        groups = collector.collect(RandomAgent(), iteration)
        assert [len(group.trajectories) for group in groups] == [2, 2, 2]
        assert [group.trajectories[0].env_id[4:8] for group in groups] == ["Froz", "Froz", "Soko"], "by weight"
        starts = [{(t.env_id, t.seed) for t in group.trajectories} for group in groups]
        hashes = [{t.start_state_hash for t in group.trajectories} for group in groups]
        assert all(len(each) == 1 for each in starts + hashes)
        assert len(set.union(*hashes)) == 3
        assert not seen & set.union(*starts)
        seen |= set.union(*starts)
    assert all(seed in SPLIT_SEEDS["train"] for _, seed in seen)
    collector.close()


@pytest.mark.parametrize(("record_every", "recorded"), [(2, {0, 2}), (0, set())])
def test_training_worlds_plan_in_recorded_iterations_only(record_every, recorded):
    collector = Collector(run_config(worlds=MIX[:1], num_groups=2, group_size=2, record_every=record_every))
    counts = [
        {turn.optimal_actions_left is not None for group in groups for t in group.trajectories for turn in t.turns}
        for groups in (collector.collect(RandomAgent(), iteration) for iteration in range(3))
    ]
    collector.close()
    assert [True in each for each in counts] == [iteration in recorded for iteration in range(3)]


def test_an_iteration_sees_the_same_levels_again_and_another_run_others():
    def hashes(seed, iteration):
        collector = Collector(run_config(seed=seed))
        return [group.trajectories[0].start_state_hash for group in collector.collect(RandomAgent(), iteration)]

    assert hashes(0, 5) == hashes(0, 5) != hashes(1, 5)


def test_no_round_of_any_iteration_shares_a_level_with_another():
    collector = Collector(run_config(algorithm=GRPO(max_sampling_rounds=3), num_groups=3, group_size=2))
    seeds = [
        {group.trajectories[0].seed for group in collector.collect(RandomAgent(), iteration, number)}
        for iteration in range(3)
        for number in range(3)
    ]
    assert all(len(each) == 3 for each in seeds)
    assert len(set.union(*seeds)) == 27
    again = collector.collect(RandomAgent(), 1, 2)
    assert {group.trajectories[0].seed for group in again} == seeds[5]
    collector.close()


@pytest.mark.parametrize("seed", [0, 1, 899, 2**31 - 1])
@pytest.mark.parametrize("iteration", [0, 10**6])
def test_training_seeds_stay_training_seeds_whatever_the_run(seed, iteration):
    groups = Collector(run_config(seed=seed)).collect(RandomAgent(), iteration)
    assert all(group.trajectories[0].seed in SPLIT_SEEDS["train"] for group in groups)


def test_evaluations_play_the_same_levels_of_their_split_each_time():
    first, again, test = (evaluate(RandomAgent(), WORLD, split=s, num_episodes=5) for s in ("val", "val", "test"))
    seeds = [[t.seed for t in each.trajectories] for each in (first, again, test)]
    assert seeds[0] == seeds[1] == list(SPLIT_SEEDS["val"][:5])
    assert seeds[2] == list(SPLIT_SEEDS["test"][:5])
    record = first.record(label="x")
    assert record["num_episodes"] == 5
    assert record["success_low"] <= record["success"] <= record["success_high"]


def test_demonstrations_never_repeat_a_seed_and_say_what_the_oracle_said(tiny):
    _, encoder = tiny
    seen: set[tuple[str, int]] = set()
    batches = demonstrations(MIX, encoder, batch_size=5, mistake_rate=0.3)
    for _ in range(4):
        batch = next(batches)
        assert len(batch) == 5
        starts = {(t.env_id, t.seed) for t in batch}
        assert len(starts) == 5
        assert not seen & starts
        seen |= starts
        for trajectory in batch:
            assert trajectory.seed in SPLIT_SEEDS["train"]
            for number, turn in enumerate(trajectory.turns):
                assert turn.response_ids[-1] == encoder.end_of_turn_id
                assert encoder.decode(turn.response_ids) == turn.response_text
                assert np.array_equal(turn.prompt_ids, encoder.encode(turn.observation, is_first=number == 0).ids)
                assert len(turn.sampler_logprobs) == len(turn.response_ids)
            assert tokenized(trajectory, encoder).seed == trajectory.seed
    assert {env_id for env_id, _ in seen} == {spec.env_id for spec in MIX}


def test_first_demonstrations_are_the_first_turns_of_episodes_and_ask_nothing_of_the_worlds(tiny, monkeypatch):
    _, encoder = tiny
    whole = next(demonstrations(MIX, encoder, batch_size=5))

    def never(self, actions):
        raise AssertionError("a first demonstration was answered")

    monkeypatch.setattr(VectorWorld, "send", never)
    batches = demonstrations(MIX, encoder, batch_size=5, num_first_turn_batches=1)
    for demonstration, episode in zip(next(batches), whole, strict=True):
        (turn,) = demonstration.turns
        assert (demonstration.seed, demonstration.start_state_hash) == (episode.seed, episode.start_state_hash)
        assert turn.response_text == episode.turns[0].response_text
        assert np.array_equal(turn.prompt_ids, episode.turns[0].prompt_ids)
    with pytest.raises(AssertionError, match="was answered"):
        next(batches)


def test_worlds_of_one_turn_are_not_answered_in_demonstrations(tiny, monkeypatch):
    _, encoder = tiny
    spec = replace(MIX[0], kwargs={**SHORT, "max_turns": 1, "min_solution_length": 2})
    monkeypatch.setattr(VectorWorld, "step", lambda self, actions: pytest.fail("nobody would read it"))
    (demonstration, *_) = next(demonstrations([spec], encoder, batch_size=2))
    assert len(demonstration.turns) == 1


def test_a_world_of_a_mix_may_have_its_own_rate_of_suboptimal_demonstrations(tiny):
    _, encoder = tiny

    def shown(specs, **rates):
        (batch,) = itertools.islice(demonstrations(specs, encoder, batch_size=9, **rates), 1)
        return [(each.env_id, each.seed, tuple(turn.response_text for turn in each.turns)) for each in batch]

    hasty = tuple(replace(spec, cold_start_suboptimal_rate=1.0) for spec in MIX)
    assert shown(hasty) == shown(MIX, suboptimal_rate=1.0) != shown(MIX)
    only_first = shown((hasty[0], MIX[1]))
    lakes, boxes = ([each for each in only_first if name in each[0]] for name in ("FrozenLake", "Sokoban"))
    assert lakes == [each for each in shown(hasty) if "FrozenLake" in each[0]]
    assert boxes == [each for each in shown(MIX) if "Sokoban" in each[0]]
    careful = tuple(replace(spec, cold_start_suboptimal_rate=0.0) for spec in MIX)
    assert shown(careful, suboptimal_rate=1.0) == shown(MIX)


def test_demonstrations_may_tell_whole_plans(tiny):
    _, encoder = tiny
    specs = [replace(spec, kwargs={**SHORT, "prompt_format": "grounding_worldmodeling"}) for spec in MIX]
    quiet, telling = (next(demonstrations(specs, encoder, batch_size=6, tells_plan=told)) for told in (False, True))
    texts = [[turn.response_text for each in batch for turn in each.turns] for batch in (quiet, telling)]
    assert not any("box to" in text for text in texts[0])
    assert [re.sub(r"(box to [^;]*; )+", "", text) for text in texts[1]] == texts[0] != texts[1]


def test_a_cold_start_may_show_worlds_in_other_shares_than_they_are_played_in(tiny):
    _, encoder = tiny

    def counts(*weights):
        specs = [replace(spec, cold_start_weight=weight) for spec, weight in zip(MIX, weights, strict=True)]
        (batch,) = itertools.islice(demonstrations(specs, encoder, batch_size=6), 1)
        return Counter(each.env_id for each in batch)

    assert counts(None, None) == {"VLM/FrozenLake-v0": 4, "VLM/Sokoban-v0": 2}, "their weights are 2 and 1"
    assert counts(1.0, 5.0) == {"VLM/FrozenLake-v0": 1, "VLM/Sokoban-v0": 5}
    assert counts(None, 4.0) == {"VLM/FrozenLake-v0": 2, "VLM/Sokoban-v0": 4}
    heavy = tuple(replace(spec, cold_start_weight=9.0) for spec in MIX[:1]) + MIX[1:]
    played = [Collector(run_config(worlds=specs, num_groups=3, group_size=2)) for specs in (MIX, heavy)]
    groups = [[unit.num_groups for unit in each.units(0)] for each in played]
    assert groups[0] == groups[1] == [2, 1], "reinforcement learning goes by the weights"


@pytest.mark.soak
def test_the_cold_start_learns(tiny):
    model, encoder = tiny
    losses: list[float] = []
    config = ColdStartConfig(num_steps=20, num_first_turn_steps=10, batch_size=4, warmup_steps=2)
    cold_start(model, encoder, (WORLD,), config, on_step=lambda step, metrics: losses.append(metrics["loss"]))
    assert len(losses) == 20
    assert losses[0] == pytest.approx(np.log(len(encoder.tokenizer)), rel=0.5), "about uniform over the vocabulary"
    assert np.mean(losses[-4:]) < 0.5 * np.mean(losses[:2])
    assert not model.training
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def test_the_cold_starts_learning_rate_rises_then_falls_to_a_tenth():
    config = ColdStartConfig(num_steps=110, num_first_turn_steps=0, warmup_steps=10, learning_rate=1.0)
    assert config.steps.learning_rate_at(0) == pytest.approx(0.1)
    assert config.steps.learning_rate_at(9) == pytest.approx(1.0)
    assert config.steps.learning_rate_at(60) == pytest.approx(0.55), "halfway: 0.1 + 0.45"
    assert config.steps.learning_rate_at(110) == pytest.approx(0.1)
