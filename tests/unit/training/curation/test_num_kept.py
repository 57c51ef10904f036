"""A curation with `num_kept` asks until enough questions are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from judges.episode_rewards import reward_registry
from judges.episode_rewards.episode_reading import query_id
from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.scores import Reward
from tests.unit.training.curation.test_curate_in_batches import SMALL, elsewhere, files, killed_at
from tests.unit.training.stages.test_stages_config import TUNED, stages
from training.__main__ import main
from training.config.world_spec import WorldSpec
from training.curation import curation_loop
from training.curation.curated_data import curated_episodes
from training.curation.curation_config import CurateConfig
from training.curation.curation_loop import make_data_set
from training.pools.pool_levels import read_levels
from training.stages.stages_config import Stage, in_stage, save_stages
from training.stages.stages_loop import _curate as curated
from training.stages.stages_preflight import checked_stages
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import RunReader

__all__ = ["elsewhere"]

UNTIL = CurateConfig(
    settings=SMALL, num_samples=60, num_kept=5, num_rollouts=1, batch_size=2, mistake_rate=0.5, name="until"
)


def kept(directory: Path) -> list[str]:
    return [json.dumps(row["turns"]) for row in RunReader(directory).trajectories("curated")]


def of_four(monkeypatch) -> None:
    """A reward that passes every fourth question, by its id, whoever answers it."""
    passes = EachByItself(lambda episode: Reward(terms={"all": float(hash_of(episode) % 4 == 0)}))
    reward = EpisodeReward(name="of_four", build=lambda models: passes, rejection_reason=lambda episode: None)
    monkeypatch.setitem(reward_registry._REWARDS, "of_four", reward)


def hash_of(episode) -> int:
    return sum(query_id(episode).encode())


def test_asking_goes_on_until_so_many_are_kept(tmp_path):
    directory, result = make_data_set(replace(UNTIL, output=str(tmp_path)))
    assert result.total.num_kept == len(curated_episodes(directory)) == 5
    assert 5 < result.total.num_samples < 60, "some were not good enough, and asking ended"
    assert len((directory / "sft.jsonl").read_text().splitlines()) == 5
    assert json.loads((directory / "config.json").read_text())["yield"]["num_kept"] == 5
    few, _ = make_data_set(replace(UNTIL, output=str(tmp_path), num_samples=5, num_kept=None, name="few"))
    assert len(curated_episodes(few)) < 5, "the case under test: of five questions fewer are kept"


def test_what_the_last_batch_has_beyond_them_is_left_out_and_counted(tmp_path):
    whole = replace(UNTIL, output=str(tmp_path), mistake_rate=0.0, batch_size=4)
    directory, result = make_data_set(whole)
    assert (result.total.num_kept, result.total.num_surplus, result.total.num_samples) == (5, 3, 8)
    assert result.total.sample_yield == 1.0 and "questions beyond those to keep: 3" in str(result)
    by_ones, _ = make_data_set(replace(whole, batch_size=1, name="by_ones"))
    assert kept(by_ones) == kept(directory), "however many are asked together, the same ones are kept"


def test_each_world_has_as_many_times_its_weight(tmp_path):
    small = {"side_px": 200, "target_px": (16, 40), "answer_kinds": ("choice", "number")}
    worlds = tuple(
        WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=small | {"categories": (category,)}, weight=weight)
        for category, weight in (("attribute", 1.0), ("count", 0.5))
    )
    chosen = replace(UNTIL, settings=(), worlds=worlds, num_kept=4, output=str(tmp_path), mistake_rate=0.3)
    _, result = make_data_set(chosen)
    assert [each.num_kept for each in result.worlds] == [4, 2]


def test_a_killed_one_goes_on_to_the_same_bytes(elsewhere):
    whole = elsewhere("whole")
    make_data_set(UNTIL)
    killed = elsewhere("killed")
    killed_at(3, curation_loop, "play", UNTIL)
    make_data_set(UNTIL)
    assert files(killed) == files(whole)


def test_too_few_are_refused_and_nothing_is_played_twice(tmp_path, monkeypatch):
    of_four(monkeypatch)
    short = replace(UNTIL, episode_reward="of_four", num_samples=8, num_kept=6, output=str(tmp_path))
    with pytest.raises(ConfigError, match=r"(?s)of 8 questions .*6 are to be kept \(num_kept 6\).*num_samples 16"):
        make_data_set(short)
    assert not (tmp_path / "until").exists()
    asked = []
    original = curation_loop.play
    monkeypatch.setattr(curation_loop, "play", lambda *given: (asked.append(given[2].seeds), original(*given))[1])
    with pytest.raises(ConfigError, match="num_samples 8, not 4"):
        make_data_set(replace(short, num_samples=4, num_kept=2))
    more = replace(short, num_samples=80)
    directory, result = make_data_set(more)
    assert result.total.num_kept == 6 and len({*sum(asked, ())}) == result.total.num_samples - 8
    alone, _ = make_data_set(replace(more, name="alone"))
    assert kept(alone) == kept(directory)


def test_levels_that_were_added_to_a_pool_are_as_fixed_as_the_first_once_they_are_asked(tmp_path):
    pool = tmp_path / "pool.jsonl"
    chosen = {"side_px": 200, "target_px": (16, 40), "categories": ("attribute",), "answer_kinds": ("choice",)}
    ids: dict[str, None] = {}
    with WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=chosen).made(split="train") as world:
        while len(ids) < 6:
            world.reset(seed=len(ids))
            ids[world.dynamics.dump(world.state)] = None

    def write(*numbers: int) -> None:
        pool.write_text("".join(json.dumps({"id": [*ids][number]}) + "\n" for number in numbers))

    write(0, 1)
    never = replace(UNTIL, pool=str(pool), num_kept=2, batch_size=1, mistake_rate=1.0, output=str(tmp_path))
    with pytest.raises(ConfigError, match="Add levels to the end"):
        make_data_set(never)
    write(0, 1, 2, 3)
    killed_at(2, curation_loop, "play", never)
    write(0, 1, 4, 5, 2, 3)
    with pytest.raises(ConfigError, match="another pool"):
        make_data_set(never)


def test_fewer_may_be_kept_of_what_was_played(tmp_path, monkeypatch):
    of_four(monkeypatch)
    short = replace(UNTIL, episode_reward="of_four", num_samples=16, num_kept=16, output=str(tmp_path))
    with pytest.raises(ConfigError, match="are to be kept"):
        make_data_set(short)
    monkeypatch.setattr(curation_loop, "play", lambda *given: pytest.fail("nothing is left to play"))
    _, result = make_data_set(replace(short, num_kept=1))
    assert result.total.num_kept == 1


def test_numbers_that_cannot_be_are_refused_at_the_start(tmp_path, capsys):
    with pytest.raises(ConfigError, match=r"num_kept 65 .*num_samples 64"):
        CurateConfig(num_kept=65)
    pool = tmp_path / "pool.jsonl"
    with WorldSpec(env_id="VLM/ZoomQA-v0").made(split="train") as world:
        world.reset(seed=0)
        pool.write_text(json.dumps({"id": world.dynamics.dump(world.state)}) + "\n")
    words = ["curate", "--pool", str(pool), "--num-kept", "2", "--output", str(tmp_path / "runs")]
    assert main(words) == 2
    assert "--num-kept: 2 questions of VLM/ZoomQA-v0 are to be kept" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_the_samples_that_are_kept_are_a_pool(tmp_path):
    directory, _ = make_data_set(replace(UNTIL, output=str(tmp_path), mistake_rate=0.0))
    ids = [each.level_id for each in read_levels(directory / "levels.jsonl")]
    samples = [row["turns"][0]["state"]["sample_id"] for row in RunReader(directory).trajectories("curated")]
    assert ids == samples and len(ids) == 5


@pytest.mark.soak
def test_a_stage_names_its_own_options_and_goes_on_with_more(tmp_path, tiny_directory):
    few = replace(UNTIL, num_samples=6, num_kept=6, batch_size=6, mistake_rate=0.7)
    learns = Stage(name="sft", run=replace(TUNED, model=str(tiny_directory), data=("stage:a_few",)))
    config = stages(Stage(name="a_few", run=few), learns, output=str(tmp_path))
    save_stages(config, [])
    run = config.resolved()[0]
    said = r"Stage 'a_few': (?s:.*)--stages.a-few.num-kept 6(?s:.*)--stages.a-few.num-samples 12"
    with pytest.raises(ConfigError, match=said), in_stage("a_few", run):
        curated(run, "a_few")
    more = replace(config, stages=(Stage(name="a_few", run=replace(few, num_samples=60)), learns))
    left = checked_stages(more, resume=True)
    assert [each.number for each in left] == [0, 1]
    _, result = make_data_set(left[0].run)
    assert result.total.num_kept == 6
