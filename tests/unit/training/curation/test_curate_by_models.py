"""Experts and judges behind endpoints or from checkpoints; missing ones are reported before the start."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from PIL import Image

from tests.unit.agents.api import endpoint as fake
from tests.unit.agents.api import wires

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from agents.agent import Response
from agents.api.conversation import with_images
from judges.llm.judge_prompts import prompt_template
from tests.unit.agents.api.conftest import KEY, environment  # noqa: F401 - a fixture
from tests.unit.agents.api.endpoint import FakeEndpoint
from tests.unit.judges.awaited import LLMAnswerJudge
from training.__main__ import main
from training.curation import curation_loop
from training.curation.curated_data import curated_episodes
from training.rewards import verifier as verifier_module
from training.rewards.verifier import CheckpointJudge, observation_of
from vlm_envs.records.run_data import RunReader

SAID = "<think>I look at it.</think><answer>a cup of tea</answer>"


@pytest.fixture
def teacher(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeEndpoint() as server:
        server.answer = lambda messages: SAID
        yield server


@pytest.fixture
def verifier(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", KEY)
    with FakeEndpoint() as server:
        yield server


@pytest.fixture
def words(tmp_path):
    """Returns what curates questions about local pictures, with answers that no rule can compare."""
    for shade in range(60):
        Image.new("RGB", (64, 48), (shade, 90, 90)).save(tmp_path / f"{shade}.png")
    rows = [
        {"problem": f"What is it, {n}?", "answer": "a mug", "images": [f"{n}.png"], "target_instances": []}
        for n in range(60)
    ]
    (tmp_path / "table.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = ["--set", "dataset=treevgr", "--set", f"folder={tmp_path}", "--set", "prompt_format=points"]
    options += ["--num-samples", "3", "--num-rollouts", "1", "--output", str(tmp_path / "out"), "--device", "cpu"]
    return ["curate", *options]


def teaches(server: FakeEndpoint) -> list[str]:
    return ["--expert", f"compatible:teacher@{server.base_url}"]


def verifies(server: FakeEndpoint) -> list[str]:
    options = {"model": "judge", "base-url": server.base_url, "api-key-variable": "JUDGE_KEY", "max-attempts": "1"}
    return [word for name, value in options.items() for word in (f"--endpoint.{name}", value)]


def test_an_endpoint_teaches_and_another_one_verifies(words, teacher, verifier, tmp_path, capsys):
    assert main([*words, *teaches(teacher), *verifies(verifier)]) == 0
    assert "kept 3 of 3 questions (yield 1.000)" in capsys.readouterr().out
    assert [part["type"] for part in teacher.requests[0]["messages"][-1]["content"]] == ["image_url", "text"]
    asked = json.dumps(verifier.requests[0])
    assert "a cup of tea" in asked and "a mug" in asked
    assert len(verifier.requests) == 3, "once about each answer, although reward and reason both want to know"
    kept = curated_episodes(tmp_path / "out" / "curated")
    assert [each.turns[0].response_text for each in kept] == [SAID] * 3 and all(each.success for each in kept)
    told = json.loads((tmp_path / "out" / "curated" / "config.json").read_text())["curation"]
    assert (told["expert"], told["endpoint"]["model"]) == (teaches(teacher)[1], "judge") and KEY not in str(told)


def test_openai_teaches_at_whatever_address_the_environment_names(words, teacher, verifier, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_BASE_URL", teacher.base_url)
    teacher.next_action = lambda request, key: fake.body_of(wires.responses(wires.Said(text=SAID)))
    assert main([*words, "--expert", "openai:gpt-5", *verifies(verifier)]) == 0
    assert "kept 3 of 3 questions" in capsys.readouterr().out and teacher.paths == ["/v1/responses"] * 4


@pytest.mark.parametrize(
    ("verdict", "reason"), [("<answer>NO</answer>", "accuracy"), ("Who am I to say?", "unavailable")]
)
@pytest.mark.parametrize("reward", ["argos", "arm_accuracy"])
def test_what_the_verifier_does_not_confirm_is_not_kept(reward, verdict, reason, words, teacher, verifier, capsys):
    verifier.answer = lambda messages: verdict
    format_of = {"argos": "points", "arm_accuracy": "arm"}[reward]
    options = ["--episode-reward", reward, "--set", f"prompt_format={format_of}"]
    assert main([*words, *options, *teaches(teacher), *verifies(verifier)]) == 1, "nothing is kept"
    said = capsys.readouterr().out
    assert "kept 0 of 3 questions (yield 0.000); 0 of 3 rollouts are good (yield 0.000)" in said
    assert f"rollouts passed over: 3 for {reason}\n" in said


def test_what_the_verifier_finds_right_every_time_is_trivial(words, teacher, verifier, capsys, monkeypatch):
    # As if the base model were behind the endpoint
    monkeypatch.setattr("training.curation.curation_command._require_counts", lambda config: None)
    assert main([*words, "--drop-trivial", *teaches(teacher), *verifies(verifier)]) == 1, "nothing is kept"
    assert "3 trivial questions dropped" in capsys.readouterr().out


class Judge:
    """Says what it is told to, and keeps what it was asked."""

    policy_version = 0

    def __init__(self, *replies: str):
        self.replies, self.seen = list(replies), []

    def start(self, worlds):
        assert worlds.num_envs == 1

    def respond(self, rows, observations):
        self.seen += observations
        return [Response(text=self.replies.pop(0))]


@pytest.fixture
def judged_by(monkeypatch):
    def use(judge: Judge) -> CheckpointJudge:
        monkeypatch.setattr(verifier_module, "make_agent", lambda name, **settings: judge)
        monkeypatch.setattr(verifier_module, "setting_names", lambda name: ("sampling",))
        return CheckpointJudge("hf:judge")

    return use


def test_a_checkpoint_judges_as_an_endpoint_does(judged_by):
    judge = Judge("I wonder.", "<answer>YES</answer>", "What?", "Why?")
    client = judged_by(judge)
    assert LLMAnswerJudge(client, "binary")("What is it?", "a mug", "a cup").value == 1.0
    question, once_more = judge.seen
    assert "a mug" in question["text"] and "could not be read" in once_more["text"]
    score = LLMAnswerJudge(client, "binary")("What is it?", "a mug", "a cup")
    assert not score.available and "judge hf:judge: unreadable twice" in score.reason


def test_a_question_is_shown_to_a_checkpoint_as_a_world_shows_it():
    grey = np.full((4, 6, 3), 90, np.uint8)
    messages = prompt_template("answer_binary").fill(question="Q", reference="a", answer="b")
    shown = observation_of(with_images(messages, [grey]))
    np.testing.assert_array_equal(shown["images"][0], grey)
    assert "Q" in shown["text"] and shown["system"]


def test_a_checkpoint_teaches_and_verifies(words, tiny_directory, tmp_path, capsys):
    few = ["--sampling.max-new-tokens", "4", "--num-samples", "1", "--set", "max_pixels=4000"]
    assert main([*words, *few, "--expert", f"hf:{tiny_directory}", "--judge", f"hf:{tiny_directory}"]) == 1
    assert "kept 0 of 1 questions" in capsys.readouterr().out, "the tiny model says nothing that could be read"
    (yielded,) = RunReader(tmp_path / "out" / "curated").config["yield"]["worlds"]
    assert sum(yielded["rejections"].values()) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["--expert", "compatible:teacher"],
            "--expert compatible:teacher: A compatible server needs NAME@URL, such",
        ),
        (["--expert", "openai:gpt-5"], "--expert openai:gpt-5: .*OPENAI_API_KEY"),
        (["--expert", "openai"], "--expert openai: the agent needs an argument: openai:MODEL; got 'openai'"),
        (["--expert", "hf"], "--expert hf: the agent needs an argument: hf:DIR"),
        (["--expert", "hf:nowhere"], "nowhere"),
        (["--judge", "hf:nowhere"], "nowhere"),
        (["--judge", "compatible:judge"], "--judge compatible:judge: A compatible server needs NAME@URL"),
        (["--endpoint.model", "judge"], "--endpoint.base-url must be the endpoint's address with its version"),
        (["--endpoint.base-url", "http://127.0.0.1:1/v1"], "--endpoint.model"),
        ([], r"only a model can compare \('semantic'\).*--endpoint.model NAME and --endpoint.base-url URL"),
        (["--device", "cuda"], "sees no CUDA GPU here. Use --device cpu"),
    ],
)
def test_who_cannot_be_asked_is_told_at_the_start(given, said, words, verifier, tmp_path, capsys, monkeypatch):
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(curation_loop, "play", None)
    judged = [] if not given or given[0].startswith(("--judge", "--endpoint")) else verifies(verifier)
    words = [word for word in words if given[:1] != ["--device"] or word not in ("--device", "cpu")]
    assert main([*words, *judged, *given]) == 2
    told = capsys.readouterr().err
    assert re.search(said, told) and told.startswith("error: ") and len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists() and not verifier.requests


def test_two_verifiers_and_one_that_nobody_asks_are_refused(words, verifier, tiny_directory, capsys):
    assert main([*words, *verifies(verifier), "--judge", f"hf:{tiny_directory}"]) == 2
    assert "--endpoint and --judge both" in capsys.readouterr().err


def test_an_endpoint_that_goes_away_costs_nothing_that_was_curated(words, teacher, verifier, tmp_path, capsys):
    words = [*words, "--batch-size", "1", *teaches(teacher), *verifies(verifier)]
    teacher.script.extend([fake.reply(SAID), *[fake.status(400, "no such model")] * 2])
    assert main(words) == 2
    told = capsys.readouterr().err
    assert "answered none of 1 questions of VLM/ZoomQA-v0, each asked twice" in told and "no such model" in told
    assert "resume" in told
    assert not (tmp_path / "out" / "curated").exists()
    assert len(teacher.requests) == 3
    assert main(words) == 0
    assert "Resuming" in (said := capsys.readouterr().out) and "kept 3 of 3 questions" in said
    assert len(teacher.requests) == 5, "what was there is not asked for again"


def test_a_question_that_the_endpoint_fails_is_asked_once_more_and_then_left_out(words, teacher, verifier, capsys):
    first = {}

    def answer_to(request, key):
        asked = json.dumps(request["messages"])
        return fake.status(400, "too long") if asked == first.setdefault("asked", asked) else fake.reply(SAID)

    teacher.next_action = answer_to
    assert main([*words, *teaches(teacher), *verifies(verifier), "--no-probe-endpoints"]) == 0
    assert "kept 2 of 2 questions" in (said := capsys.readouterr().out) and "; questions lost: 1" in said
