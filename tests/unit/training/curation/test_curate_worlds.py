"""Several worlds in one curation: each with its arguments and its pool, and a yield of its own by reason."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from agents.api.endpoint_config import EndpointConfig
from judges.episode_rewards import reward_registry
from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.scores import Reward
from training.__main__ import main
from training.config.saved_config import plain, rebuilt
from training.config.settings_without_effect import settings_without_effect
from training.config.world_spec import WorldSpec
from training.curation import curation_loop
from training.curation.curated_data import curated_episodes
from training.curation.curation_config import CURATED, CurateConfig
from training.curation.curation_loop import make_data_set
from training.curation.curation_set import questions
from training.pools.pool_config import PoolConfig
from vlm_envs.content.judging import judging_datasets as datasets
from vlm_envs.content.judging import preference_rows
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import to_json
from vlm_envs.records.run_data import RunReader

SMALL = {"side_px": 200, "target_px": (16, 40), "answer_kinds": ("choice", "number"), "prompt_format": "direct"}
PAIRS = {"tracks": "instruction_following", "prompt_format": "direct"}


def curated(tmp_path: Path, *worlds: WorldSpec, **changes) -> CurateConfig:
    fields = {"num_samples": 3, "num_rollouts": 1, "mistake_rate": 0.0, "episode_reward": "right"} | changes
    return CurateConfig(worlds=worlds, output=str(tmp_path), **fields)


@pytest.fixture(autouse=True)
def right(monkeypatch):
    """A reward that reads any world."""
    reward = EpisodeReward(
        name="right",
        build=lambda models: EachByItself(lambda episode: Reward(terms={"right": float(episode.success)})),
    )
    monkeypatch.setitem(reward_registry._REWARDS, "right", reward)


def pool_of(path: Path, *ids: str) -> PoolConfig:
    path.write_text("".join(json.dumps({"id": each}) + "\n" for each in ids))
    return PoolConfig(file=str(path))


def sample_ids(directory: Path) -> list[str]:
    return [each["turns"][0]["state"]["sample_id"] for each in RunReader(directory).trajectories(CURATED)]


def test_worlds_are_played_one_after_the_other_and_told_apart(tmp_path, capsys):
    options = [f"--output={tmp_path}", "--num-samples", "2", "--num-rollouts", "2", "--mistake-rate", "0.5"]
    options += ["--worlds.0.env-id", "VLM/ZoomQA-v0", "--worlds.0.kwargs.side-px", "200"]
    options += ["--worlds.0.kwargs.target-px", "16", "40", "--worlds.0.weight", "2"]
    options += ["--worlds.1.env-id", "VLM/RewardJudging-v0", "--worlds.1.kwargs.tracks", "instruction_following"]
    options += ["--worlds.2.env-id", "VLM/ZoomQA-v0", "--worlds.2.kwargs.side-px", "300"]
    options += ["--worlds.2.kwargs.target-px", "16", "40"]
    assert main(["curate", "--episode-reward", "arm_accuracy", "--reward-set", "needs_tools=False", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if re.match(r"VLM/.*: kept \d of \d questions .* rollouts passed over: ", line)]
    assert [line.partition(": ")[0] for line in told] == [
        "VLM/ZoomQA-v0 (side_px=200)",
        "VLM/RewardJudging-v0",
        "VLM/ZoomQA-v0 (side_px=300)",
    ]
    assert [re.search(r"of (\d) questions", line)[1] for line in told] == ["4", "2", "2"]
    record = RunReader(tmp_path / "curated").config["yield"]
    assert [each["world"] for each in record["worlds"]] == [line.partition(": ")[0] for line in told]
    for name in ("num_samples", "num_kept", "num_rollouts", "num_good_rollouts"):
        assert record[name] == sum(each[name] for each in record["worlds"])
    reasons = {reason for each in record["worlds"] for reason in each["rejections"]}
    assert reasons and record["rejections"] == {
        reason: sum(each["rejections"].get(reason, 0) for each in record["worlds"]) for reason in reasons
    }
    assert len(curated_episodes(tmp_path / "curated")) == record["num_kept"] > 0


def test_each_world_has_a_pool_of_its_own(tmp_path):
    zoom = WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=SMALL)
    pairs = WorldSpec(env_id="VLM/RewardJudging-v0", kwargs=PAIRS)
    directory, _ = make_data_set(curated(tmp_path, zoom, pairs, name="drawn"))
    ids = sample_ids(directory)
    pooled = [
        replace(world, pool=pool_of(tmp_path / f"{number}.jsonl", *chosen))
        for number, (world, chosen) in enumerate([(zoom, ids[1:3]), (pairs, ids[4:])])
    ]
    directory, result = make_data_set(curated(tmp_path, *pooled, num_samples=9))
    assert sample_ids(directory) == [*ids[1:3], *ids[4:]]
    assert [each.num_samples for each in result.worlds] == [2, 2]


def test_the_same_question_in_two_worlds_is_kept_in_both(tmp_path):
    worlds = [
        WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={**SMALL, "prompt_format": each}) for each in ("points", "direct")
    ]
    chosen = curated(tmp_path, *worlds)
    directory, result = make_data_set(chosen)
    assert [each.num_kept for each in result.worlds] == [3, 3]
    ids = sample_ids(directory)
    assert ids[:3] == ids[3:]


def test_settings_of_one_world_beside_several_do_nothing_and_are_named(tmp_path):
    worlds = (WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=SMALL),)
    inert = settings_without_effect(curated(tmp_path, *worlds, settings=("side_px=200",), pool="a.jsonl"))
    assert [line.split()[0] for line in inert if "--worlds" in line] == ["--set", "--pool"]


def test_pools_that_nobody_draws_and_worlds_that_come_twice_are_refused(tmp_path):
    world = WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=SMALL)
    drawn = replace(world, pool=PoolConfig(file="own.jsonl", draw=8))
    with pytest.raises(ConfigError, match=r"draws no pool\..*python -m training pool"):
        curated(tmp_path, drawn)
    with pytest.raises(ConfigError, match="asks every question twice in the same way"):
        curated(tmp_path, world, world)
    with pytest.raises(ConfigError, match=r"arm_accuracy with VLM/ZoomQA-v0 .*reads prompt_format arm; got 'direct'"):
        curated(tmp_path, world, episode_reward="arm_accuracy")


def test_it_is_saved_and_read_back(tmp_path):
    world = WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={"side_px": 200}, pool=PoolConfig(file="a.jsonl"), weight=0.5)
    chosen = curated(tmp_path, world, again=("max_turns=2",), judge="hf:a", episode_reward="argos")
    behind = EndpointConfig(model="judge", base_url="http://127.0.0.1:1/v1", cache_dir=Path("cache"))
    for each in (chosen, replace(chosen, judge=None, endpoint=behind)):
        assert rebuilt(CurateConfig, json.loads(json.dumps(to_json(plain(each))))) == each
    assert chosen.num_samples_of(chosen.specs[0]) == 2, "one half of three, rounded"


def judging_pool(tmp_path: Path, **kwargs) -> PoolConfig:
    """Draws a pool of pairs."""
    world = WorldSpec(env_id="VLM/RewardJudging-v0", kwargs={**PAIRS, **kwargs})
    directory, _ = make_data_set(curated(tmp_path, world, name="drawn"))
    return pool_of(tmp_path / "pool.jsonl", *sample_ids(directory))


def test_the_pairs_of_a_pool_are_judged_in_both_orders(tmp_path):
    pool = judging_pool(tmp_path)
    world = WorldSpec(env_id="VLM/RewardJudging-v0", kwargs=PAIRS, pool=pool)
    directory, result = make_data_set(curated(tmp_path, world, again=("reverse_order=True",)))
    assert [each.num_kept for each in result.worlds] == [3, 3]
    assert [each.world for each in result.worlds][1].endswith("(reverse_order=True)")
    rows = RunReader(directory).trajectories(CURATED)
    for one, other in zip(rows[:3], rows[3:], strict=True):
        assert (
            one["turns"][0]["state"]["sample_id"].replace(":forward:", ":reverse:")
            == (other["turns"][0]["state"]["sample_id"])
        )
        assert one["turns"][0]["state"]["answers"] != other["turns"][0]["state"]["answers"]


def test_settings_that_change_nothing_for_the_levels_of_a_pool_are_refused(tmp_path, capsys):
    pool = judging_pool(tmp_path)
    words = ["curate", "--env-id", "VLM/RewardJudging-v0", "--output", str(tmp_path / "out"), "--pool", pool.file]
    words += ["--set", "tracks=instruction_following", "--episode-reward", "arm_accuracy"]
    assert main([*words, "--again", "num_candidates=4"]) == 2
    message = capsys.readouterr().err
    assert "VLM/RewardJudging-v0 with num_candidates=4 " in message and "draw a pool with it" in message
    assert not (tmp_path / "out").exists()
    world = WorldSpec(env_id="VLM/RewardJudging-v0", kwargs=PAIRS, pool=pool)
    _, result = make_data_set(curated(tmp_path, world, again=("max_turns=4",)))
    assert result.total.num_kept == 6, "how they are judged is another matter"


def test_a_pool_that_is_in_the_reverse_order_already_is_refused(tmp_path):
    pool = judging_pool(tmp_path, reverse_order=True)
    world = WorldSpec(env_id="VLM/RewardJudging-v0", kwargs=PAIRS, pool=pool)
    with pytest.raises(ConfigError, match="with reverse_order=True "):
        make_data_set(curated(tmp_path, world, again=("reverse_order=True",)))


@pytest.fixture
def local(tmp_path):
    """Rows of a data set with pictures, and ids of those to train on."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows = []
    for number in range(12):
        Image.new("RGB", (64, 48), (number, 90, 90)).save(folder / f"{number}.png")
        options = ["cat", "dog"]
        rows.append(
            {"id": f"q{number}", "track": "fine_grained", "question": f"What sits there, {number}?", "answer": 1,
             "responses": [f"A {each}, I think." for each in options], "image": f"{number}.png"}
        )  # fmt: skip
    (folder / "judged.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def judged(folder: Path, **changes) -> WorldSpec:
    kwargs = {"dataset": "judged", "folder": str(folder), "is_benchmark": False, "prompt_format": "direct"}
    return WorldSpec(env_id="VLM/RewardJudging-v0", kwargs=kwargs, **changes)


def ids_of(folder: Path) -> tuple[str, ...]:
    with judged(folder).made(split="train") as world:
        return world.dynamics.source.ids("train")


def test_pictures_are_opened_when_their_question_is_asked(tmp_path, local, monkeypatch):
    ids = ids_of(local)
    assert len(ids) >= 6, "the case under test"
    read, original = [], preference_rows.picture_of
    monkeypatch.setattr(preference_rows, "picture_of", lambda *given: (read.append(given[1]), original(*given))[1])
    pool = pool_of(tmp_path / "pool.jsonl", *ids)
    make_data_set(curated(tmp_path, judged(local, pool=pool), num_samples=2, expert="random"))
    assert len({*read}) == 2


def test_a_broken_picture_of_a_pool_is_named_and_counted_and_the_others_are_curated(tmp_path, local, capsys):
    ids = ids_of(local)
    number = int(re.search(r":(\d+):", ids[1])[1]) - 1
    (local / f"{number}.png").write_bytes(b"half a picture")
    with (local / "judged.jsonl").open("a") as file:
        file.write('\n{"id": "x"')
    pool = pool_of(tmp_path / "pool.jsonl", *ids[:3])
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        directory, result = make_data_set(curated(tmp_path, judged(local, pool=pool), num_rollouts=2))
    assert (result.total.num_kept, result.total.num_broken, result.total.num_lost) == (2, 1, 0)
    assert sample_ids(directory) == [ids[0], ids[2]]
    told = str(result)
    assert f"judged.jsonl, line {number + 1}" in told and "judged.jsonl, line 13" in told
    assert "; questions with broken rows: 1" in told
    assert len(RunReader(directory).config["yield"]["broken_rows"]) == 2


def test_a_data_set_is_read_once_however_many_batches_there_are(tmp_path, local, monkeypatch):
    read, original = [], datasets.shown_rows
    monkeypatch.setattr(datasets, "shown_rows", lambda *given, **named: (read.append(1), original(*given, **named))[1])
    pool = pool_of(tmp_path / "pool.jsonl", *ids_of(local)[:4])
    read.clear()
    make_data_set(curated(tmp_path, judged(local, pool=pool), num_samples=4, batch_size=1))
    few = len(read)
    read.clear()
    make_data_set(curated(tmp_path, judged(local, pool=pool), name="one", num_samples=4, batch_size=4))
    assert few == len(read)


def test_a_world_without_a_question_to_train_on_is_refused(tmp_path, local, monkeypatch):
    world = judged(local)
    world = replace(world, kwargs={**world.kwargs, "is_benchmark": True})
    monkeypatch.setattr(curation_loop, "play", None)
    with pytest.raises(ConfigError, match="no level of split 'train'"):
        make_data_set(curated(tmp_path, world))


def test_questions_are_of_each_world_in_order(tmp_path):
    worlds = (
        WorldSpec(env_id="VLM/ZoomQA-v0", kwargs=SMALL),
        WorldSpec(env_id="VLM/RewardJudging-v0", kwargs=PAIRS, weight=2),
    )
    asked = questions(curated(tmp_path, *worlds, again=("max_turns=2",)))
    assert [(each.world, len(each)) for each in asked] == [(0, 3), (1, 3), (2, 6), (3, 6)]
    assert asked[0].seeds == asked[1].seeds == asked[2].seeds[:3]
