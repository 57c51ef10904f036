"""Curation writes a batch of questions before it asks the next: memory is bounded, and a kill loses one batch."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agents.hf.sampling_config import SamplingConfig
from judges.episode_rewards import reward_registry
from judges.episode_rewards.episode_reward import EachByItself, EpisodeReward
from judges.scores import Reward
from training.curation import curation_loop, curation_set
from training.curation.curated_data import curated_episodes
from training.curation.curation_config import CURATED, CurateConfig
from training.curation.curation_loop import make_data_set
from training.curation.curation_set import QuestionBatch, UnfinishedSet, has_batches, in_batches, questions
from vlm_envs.errors import ConfigError
from vlm_envs.records.folder_lock import BusyFolderError, alone_in
from vlm_envs.records.json_lines import RunExistsError
from vlm_envs.records.run_data import RunReader

SMALL = ("side_px=200", "target_px=(16, 40)", "answer_kinds=('choice', 'number')", "prompt_format=points")
CHOSEN = CurateConfig(settings=SMALL, num_samples=7, num_rollouts=2, batch_size=2, mistake_rate=0.5)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Goes to a new folder, so that what is written there may be compared byte by byte."""

    def go(name: str) -> Path:
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        return tmp_path / name / "runs"

    return go


def killed_at(number: int, owner: object, name: str, config: CurateConfig) -> None:
    """Curates in a process of its own that is killed when a function is called so many times."""
    child = os.fork()
    if child == 0:
        calls, original = [], getattr(owner, name)

        def deadly(*arguments, **options):
            calls.append(name)
            if len(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **options)

        setattr(owner, name, deadly)
        try:
            make_data_set(config)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it was killed, and did not come to its end"


@pytest.mark.parametrize(
    ("number", "owner", "name", "num_done"),
    [
        (2, curation_loop, "play", 1),  # while it plays
        (3, curation_set, "append_line", 1),  # between rows of a batch
        (3, curation_set, "replace_file", 0),  # before the numbers of a batch
        (5, curation_set, "replace_file", 1),
        (4, UnfinishedSet, "add", 3),
        (3, curation_set, "_link", 4),  # while the batches are merged
    ],
)
@pytest.mark.sample(2)
def test_a_killed_curation_goes_on_to_the_same_bytes(elsewhere, number, owner, name, num_done, capsys):
    whole = elsewhere("whole")
    make_data_set(CHOSEN)
    killed = elsewhere("killed")
    killed_at(number, owner, name, CHOSEN)
    assert not (killed / "curated").exists(), "what has its name is whole"
    assert has_batches(killed / "curated") == (num_done > 0)
    capsys.readouterr()
    make_data_set(CHOSEN)
    assert (f"after {min(7, 2 * num_done)} of 7 questions" in capsys.readouterr().out) == (num_done > 0)
    assert files(killed) == files(whole)
    assert {"curated/config.json", "curated/sft.jsonl", "curated/trajectories/curated.jsonl"} < files(whole).keys()


def test_what_was_played_before_a_kill_is_not_played_again(elsewhere, monkeypatch):
    elsewhere("killed")
    killed_at(3, curation_loop, "play", CHOSEN)
    asked = []
    original = curation_loop.play
    monkeypatch.setattr(curation_loop, "play", lambda *given: (asked.append(len(given[2])), original(*given))[1])
    make_data_set(CHOSEN)
    assert asked == [2, 1]


def test_a_model_goes_on_sampling_where_it_stood(elsewhere, tiny_directory, monkeypatch):
    everything = EpisodeReward(
        name="everything",
        build=lambda models: EachByItself(lambda episode: Reward(terms={"all": 1.0})),
        rejection_reason=lambda episode: None,
    )
    monkeypatch.setitem(reward_registry._REWARDS, "everything", everything)
    few = {"num_samples": 2, "num_rollouts": 1, "batch_size": 1, "sampling": SamplingConfig(max_new_tokens=6)}
    sampled = replace(CHOSEN, expert=f"hf:{tiny_directory}", episode_reward="everything", device="cpu", **few)
    whole = elsewhere("whole")
    make_data_set(sampled)
    said = [each.turns[0].response_text for each in curated_episodes(whole / "curated")]
    assert len({*said}) == 2, "the case under test: responses are drawn"
    killed = elsewhere("killed")
    killed_at(2, curation_loop, "play", sampled)
    make_data_set(sampled)
    assert files(killed) == files(whole)


class FirstCome:
    """Pays the first three episodes that it ever sees."""

    def __init__(self):
        self.num_seen = 0

    def __call__(self, episodes):
        rewards = [Reward(terms={"early": float(self.num_seen + place < 3)}) for place in range(len(episodes))]
        self.num_seen += len(episodes)
        return rewards

    def state_dict(self):
        return {"num_seen": self.num_seen}

    def load_state_dict(self, state):
        self.num_seen = state["num_seen"]

    def metrics(self):
        return {}


def test_a_judge_goes_on_with_what_it_remembers(elsewhere, monkeypatch):
    first_come = EpisodeReward(
        name="first_come", build=lambda models: FirstCome(), rejection_reason=lambda episode: None
    )
    monkeypatch.setitem(reward_registry._REWARDS, "first_come", first_come)
    chosen = replace(CHOSEN, episode_reward="first_come", num_rollouts=1)
    elsewhere("killed")
    killed_at(2, curation_loop, "play", chosen)
    directory, _ = make_data_set(chosen)
    assert len(curated_episodes(directory)) == 3


def test_no_more_than_a_batch_is_held_in_memory(tmp_path, monkeypatch):
    played, held, original = [], [], curation_loop.rewards_by

    def counted(name, judge, episodes):
        played.extend(map(weakref.ref, episodes))
        gc.collect(1)
        held.append(sum(each() is not None for each in played))
        return original(name, judge, episodes)

    monkeypatch.setattr(curation_loop, "rewards_by", counted)
    make_data_set(replace(CHOSEN, output=str(tmp_path)))
    assert held == [4, 4, 4, 2], "two rollouts of two questions, and of one"


def test_the_size_of_batches_decides_nothing_else(tmp_path):
    perfect = replace(CHOSEN, mistake_rate=0.0, output=str(tmp_path))
    one, _ = make_data_set(replace(perfect, name="one", batch_size=7))
    many, _ = make_data_set(replace(perfect, name="many", batch_size=3))
    one_by_name, many_by_name = files(one), files(many)
    assert one_by_name.pop("config.json") != many_by_name.pop("config.json")
    assert one_by_name == many_by_name


def test_a_question_that_comes_in_two_batches_is_kept_once_with_its_best_rollout(tmp_path, monkeypatch):
    (asked,) = questions(CHOSEN)
    one, other = asked.seeds[:2]
    twice = QuestionBatch(world=0, seeds=(one, other, one, one))
    monkeypatch.setattr(curation_loop, "questions", lambda config: [twice])
    paid = iter([0.8, 0.75, 0.9, 0.9])
    rising = EpisodeReward(
        name="rising",
        build=lambda models: EachByItself(lambda episode: Reward(terms={"all": next(paid)})),
        rejection_reason=lambda episode: None,
    )
    monkeypatch.setitem(reward_registry._REWARDS, "rising", rising)
    chosen = replace(CHOSEN, episode_reward="rising", num_rollouts=1, batch_size=1, num_samples=4, output=str(tmp_path))
    directory, result = make_data_set(chosen)
    assert (result.total.num_samples, result.total.num_kept, result.total.num_good_rollouts) == (2, 2, 4)
    assert [each.seed for each in curated_episodes(directory)] == [other, one], "the third, of equals the first"
    shown = {name for row in RunReader(directory).trajectories(CURATED) for name in row["turns"][0]["images"]}
    assert {path.stem for path in (directory / "images").rglob("*.png")} >= shown


def test_another_curation_does_not_go_on_with_it(tmp_path):
    chosen = replace(CHOSEN, output=str(tmp_path))
    killed_at(3, curation_loop, "play", chosen)
    unfinished = tmp_path / "curated.unfinished"
    before = files(unfinished)
    for changes, said in (
        ({"num_rollouts": 3}, "num_rollouts 2, not 3"),
        ({"settings": (*SMALL, "max_pixels=4000")}, r"with settings \["),
        ({"seed": 1}, "seed 0, not 1"),
    ):
        with pytest.raises(ConfigError, match=rf"{said}.*--name"):
            make_data_set(replace(chosen, **changes))
    assert files(unfinished) == before, "nothing is lost"
    directory, _ = make_data_set(replace(chosen, batch_size=3, device="cpu"))
    assert directory.is_dir() and not unfinished.exists()


def test_a_pool_that_has_changed_is_told(tmp_path):
    chosen = replace(CHOSEN, output=str(tmp_path), batch_size=1, num_samples=2, mistake_rate=0.0)
    directory, _ = make_data_set(replace(chosen, name="ids"))
    ids = [each["turns"][0]["state"]["sample_id"] for each in RunReader(directory).trajectories(CURATED)]
    pool = tmp_path / "pool.jsonl"
    pool.write_text("".join(f'{{"id": "{each}"}}\n' for each in ids))
    pooled = replace(chosen, name="pooled", pool=str(pool))
    killed_at(2, curation_loop, "play", pooled)
    pool.write_text("".join(f'{{"id": "{each}"}}\n' for each in reversed(ids)))
    with pytest.raises(ConfigError, match="with another pool"):
        make_data_set(pooled)


def test_batches_are_of_one_world_each_and_go_on_within_one():
    asked = [QuestionBatch(world=0, seeds=(1, 2, 3)), QuestionBatch(world=1, seeds=(1, 2), levels=("a", "b"))]
    assert [each.seeds for each in in_batches(asked, 2)] == [(1, 2), (3,), (1, 2)]
    left = in_batches(asked, 2, num_done={0: 3, 1: 1})
    assert [(each.world, each.seeds, each.levels) for each in left] == [(1, (2,), ("b",))]
    assert list(in_batches(asked, 2, num_done={0: 3, 1: 2})) == []


def test_what_another_process_is_making_is_left_alone(tmp_path, monkeypatch):
    chosen = replace(CHOSEN, output=str(tmp_path), num_samples=1)
    with alone_in(tmp_path / chosen.name), pytest.raises(BusyFolderError, match=rf"process {os.getpid()}\)"):
        make_data_set(chosen)
    assert not [*tmp_path.iterdir()]

    @contextmanager
    def late(directory):
        (directory / "trajectories").mkdir(parents=True)
        (directory / "config.json").write_text("{}")
        with alone_in(directory):
            yield

    monkeypatch.setattr("training.curation.curation_loop.alone_in", late)
    with pytest.raises(RunExistsError):  # somebody else was faster
        make_data_set(chosen)


def test_what_is_whole_is_left_alone(tmp_path):
    chosen = replace(CHOSEN, output=str(tmp_path), num_samples=1)
    directory, _ = make_data_set(chosen)
    before = files(directory)
    with pytest.raises(RunExistsError):
        make_data_set(chosen)
    assert files(directory) == before
