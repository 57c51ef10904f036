import hashlib
import io
import json
import math

import numpy as np
import pytest
from PIL import Image

from vlm_envs.records.json_lines import BrokenRunDataError, MissingRunDataError, RunExistsError, to_json
from vlm_envs.records.run_data import (
    RunReader,
    RunWriter,
    TurnNotes,
    episode_keys,
    recorded_terms,
    slug,
    training_label,
)
from vlm_envs.trajectory import PaidTerm, Trajectory, Turn, world_terms

RED = np.full((4, 6, 3), (200, 30, 30), np.uint8)
BLUE = np.full((4, 6, 3), (30, 30, 200), np.uint8)


def turn(text: str = "look", response: str = "<answer>Up</answer>", **changes: object) -> Turn:
    fields: dict[str, object] = {
        "observation": {"text": text, "image": RED},
        "response_text": response,
        "stop_reason": "stop",
        "reward": 0.4,
        "reward_terms": world_terms({"step": -0.1, "format": 0.5}),
        "terminated": False,
        "truncated": False,
        "state": {"player_position": (0, 1)},
        "state_text": "{player_position: (0, 1)}",
        "info": {
            "success": False,
            "state": {"player_position": (1, 1)},
            "state_text": "{player_position: (1, 1)}",
            "sections": {"answer": "Up"},
            "actions": ("Up",),
            "parse_error": None,
            "optimal_actions_left": 2,
        },
    }
    return Turn(**{**fields, **changes})  # type: ignore[arg-type]


def trajectory(*turns: Turn, seed: int = 7) -> Trajectory:
    return Trajectory(
        env_id="VLM/FrozenLake-v0",
        seed=seed,
        turns=turns or (turn(), turn("again")),
        final_observation={"text": "over", "image": BLUE},
        start_state_hash="00",
        policy_version=3,
    )


@pytest.fixture
def writer(tmp_path):
    writer = RunWriter(tmp_path / "run")
    writer.config({"name": "demo"})
    return writer


def test_lines_come_back_in_order_and_numbers_that_are_not_finite_become_null(writer):
    writer.metrics({"iteration": 0, "kl": math.nan, "grad_norm": np.float32(1.5), "clip": -math.inf})
    writer.metrics({"iteration": np.int64(1), "success": True})
    text = (writer.directory / "metrics.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert RunReader(writer.directory).metrics() == [
        {"iteration": 0, "kl": None, "grad_norm": 1.5, "clip": None},
        {"iteration": 1, "success": True},
    ]


def test_an_episode_keeps_what_was_seen_said_and_true(writer):
    judged = PaidTerm(name="grounding", value=0.25, source="judge:exact", weight=0.5)
    writer.trajectories("Iteration 20", [trajectory()], [[TurnNotes(judge_terms=(judged,)), TurnNotes()]])
    [episode] = RunReader(writer.directory).trajectories("Iteration 20")
    first, second = episode["turns"]
    assert (episode["seed"], episode["policy_version"], episode["success"]) == (7, 3, False)
    assert episode["total_reward"] == pytest.approx(0.8)
    assert first["state"] == {"player_position": [0, 1]}
    assert first["state_text"] == "{player_position: (0, 1)}"
    assert first["state_text_after"] == "{player_position: (1, 1)}"
    assert recorded_terms(first) == (*turn().reward_terms, judged)
    assert recorded_terms(second) == turn().reward_terms
    assert (first["actions"], first["optimal_actions_left"]) == (["Up"], 2)
    assert first["images"] == second["images"] != episode["final"]["images"]


def test_terms_recorded_by_name_are_read_with_the_sources_their_names_tell():
    old = {
        "reward_terms": {"step": -0.1, "format": None},
        "shaping": {"grounding": 0.5, "ivgr/answer": 1.5},
    }
    step, form, grounding, answer = recorded_terms(old)
    assert (step, form.source) == (PaidTerm(name="step", value=-0.1, source="env"), "format")
    assert math.isnan(form.value), "a value that was not finite"
    assert grounding == PaidTerm(name="grounding", value=0.5, source="judge", weight=None)
    assert answer == PaidTerm(name="ivgr/answer", value=1.5, source="episode:ivgr", weight=None)
    [unpaid] = recorded_terms({"reward_terms": {}, "shaping": {"grounding": 0.5}})
    assert unpaid == grounding
    assert recorded_terms({"text": "over", "images": []}) == ()


def test_the_first_state_is_kept_in_the_words_of_every_representation(writer):
    info = {"success": False, "state": {"player_position": (1, 1)}, "state_text": "the goal is above"}
    writer.trajectories("before", [trajectory(turn(info=info, state_text="the goal is to the left"))])
    [episode] = RunReader(writer.directory).trajectories("before")
    assert episode["turns"][0]["state_text"] == "the goal is to the left"
    assert episode["turns"][0]["state_text_after"] == "the goal is above"


def test_episodes_of_training_iterations_are_dropped_from_where_a_run_goes_on(writer):
    for iteration in (0, 2, 10):
        writer.trajectories(training_label(iteration), [trajectory()])
    assert RunReader(writer.directory).trajectory_labels() == ["training 0", "training 2", "training 10"]
    RunWriter(writer.directory, resume_from_iteration=2)
    assert RunReader(writer.directory).trajectory_labels() == ["training 0"]


def test_a_picture_is_stored_once_under_the_hash_of_its_file(writer):
    writer.trajectories("before", [trajectory(), trajectory()])
    files = list((writer.directory / "images").rglob("*"))
    pictures = [path for path in files if path.is_file()]
    assert len(pictures) == 2  # red and blue
    for path in pictures:
        assert path.stem == hashlib.sha256(path.read_bytes()).hexdigest()
        assert path.parent.name == path.stem[:2]
    [name] = RunReader(writer.directory).trajectories("before")[0]["final"]["images"]
    image = Image.open(io.BytesIO(RunReader(writer.directory).image(name)))
    np.testing.assert_array_equal(np.asarray(image), BLUE)


def test_any_text_survives(writer):
    hostile = "\ud800 \u2028 \x00 \r\n </script> é 🧊"
    writer.trajectories("before", [trajectory(turn(response=hostile))])
    [episode] = RunReader(writer.directory).trajectories("before")
    assert episode["turns"][0]["response"] == hostile


def test_a_half_written_last_line_is_skipped_and_a_broken_one_in_the_middle_is_named(writer):
    path = writer.directory / "metrics.jsonl"
    path.write_bytes(b'{"iteration":0}\n{"iteration":1,"rew')
    reader = RunReader(writer.directory)
    assert reader.metrics() == [{"iteration": 0}]
    path.write_bytes(b'{"iteration":0\n{"iteration":1}\n')
    with pytest.raises(BrokenRunDataError, match=r"metrics\.jsonl, line 1"):
        reader.metrics()


def test_resuming_drops_what_will_be_done_again(writer):
    for step in range(6):
        writer.metrics({"iteration": step, "phase": "cold_start"})
    for iteration in range(4):
        writer.metrics({"iteration": iteration, "phase": "rl"})
    for label, iteration in (("before", 0), ("iteration 3", 3), ("iteration 4", 4), ("after", 3)):
        writer.trajectories(label, [trajectory()])
        writer.evaluation({"label": label, "iteration": iteration})
    with (writer.directory / "metrics.jsonl").open("ab") as file:
        file.write(b'{"iteration":4,"ph')

    resumed = RunWriter(writer.directory, resume_from_iteration=3)
    resumed.metrics({"iteration": 3, "phase": "rl", "again": True})
    reader = RunReader(writer.directory)
    assert [(line["phase"], line["iteration"]) for line in reader.metrics()] == [
        *(("cold_start", step) for step in range(6)),
        *(("rl", iteration) for iteration in range(4)),
    ]
    assert reader.metrics()[-1]["again"]
    kept = ["before", "iteration 3"]  # the evaluation between iterations 2 and 3 came before the checkpoint
    assert [line["label"] for line in reader.evaluations()] == kept
    assert reader.trajectory_labels() == kept


def test_resuming_in_the_cold_start_drops_everything_later(writer):
    for phase in ("cold_start", "rl"):
        for step in range(4):
            writer.metrics({"iteration": step, "phase": phase})
    writer.evaluation({"label": "before", "iteration": 0})
    writer.evaluation({"label": "after", "iteration": 4})
    RunWriter(writer.directory, resume_from_iteration=2, resume_phase="cold_start")
    reader = RunReader(writer.directory)
    assert [(line["phase"], line["iteration"]) for line in reader.metrics()] == [
        ("cold_start", 0),
        ("cold_start", 1),
    ]
    assert [line["label"] for line in reader.evaluations()] == ["before"]
    with pytest.raises(ValueError, match="Did you mean 'cold_start'"):
        RunWriter(writer.directory, resume_from_iteration=2, resume_phase="cold_strat")


def test_an_evaluation_done_again_replaces_its_episodes_and_further_worlds_add_to_them(writer):
    writer.trajectories("after", [trajectory(seed=1), trajectory(seed=2)])
    again = RunWriter(writer.directory, resume_from_iteration=0)
    again.trajectories("after", [trajectory(seed=1)])
    again.trajectories("after", [trajectory(seed=9), trajectory(seed=10)], limit=1)
    assert [each["seed"] for each in RunReader(writer.directory).trajectories("after")] == [1, 9]


def test_misuse_says_what_to_do(writer, tmp_path):
    with pytest.raises(RunExistsError, match="resume_from_iteration"):
        RunWriter(writer.directory)
    with pytest.raises(MissingRunDataError, match="does not exist"):
        RunReader(tmp_path / "nowhere")
    writer.trajectories("before", [trajectory()])
    with pytest.raises(MissingRunDataError, match="Did you mean 'before'"):
        RunReader(writer.directory).trajectories("befor")
    with pytest.raises(BrokenRunDataError, match="64 hexadecimal"):
        RunReader(writer.directory).image("../../secret")
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        writer.trajectories("x", [trajectory()], [[TurnNotes()]])
    with pytest.raises(TypeError, match="type object"):
        to_json({"a": object()})


def test_no_temporary_file_is_left_behind(writer):
    writer.trajectories("before", [trajectory()])
    assert not [path for path in writer.directory.rglob("*") if path.name.endswith(".tmp")]
    assert json.loads((writer.directory / "config.json").read_text()) == {"name": "demo"}


def test_keys_pair_repeated_seeds_by_their_order():
    episodes = [{"env_id": "a", "seed": 1}, {"env_id": "a", "seed": 1}, {"env_id": "b", "seed": 1}]
    assert episode_keys(episodes) == [("a", 1, 0), ("a", 1, 1), ("b", 1, 0)]


def test_slugs_are_file_names():
    assert slug("Iteration 20") == "iteration-20"
    assert slug("../../etc") == "etc"
    with pytest.raises(ValueError, match="at least one letter"):
        slug("…")
