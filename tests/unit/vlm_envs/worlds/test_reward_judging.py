"""VLM/RewardJudging-v0: what is shown, which tools there are, what an expert does, what is measured."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")
pytest.importorskip("reportlab", reason="needs reportlab: pip install '.[tools]'")

import vlm_envs
from agents.oracle import OracleAgent
from vlm_envs.content.judging.instruction_track import Requirements
from vlm_envs.content.judging.judging_cases import TRACKS
from vlm_envs.content.judging.judging_source import JudgingSource
from vlm_envs.errors import ConfigError
from vlm_envs.tools.instruction_checkers import CHECKERS
from vlm_envs.worlds.reward_judging import RewardJudgingWorld, quotation

SMALL = {"side_px": (400, 600), "target_px": (16, 40), "num_pages": 5}
PAGES = ("doc_page_retrieval_by_query", "doc_page_retrieval_by_index")


def make(**kwargs: Any) -> RewardJudgingWorld:
    world = vlm_envs.make("VLM/RewardJudging-v0", **{**SMALL, **kwargs}).unwrapped
    assert isinstance(world, RewardJudgingWorld)
    return world


def play(world: RewardJudgingWorld, seed: int) -> tuple[list[Any], dict[str, Any]]:
    """Returns the calls of the oracle's episode and the last info."""
    oracle = OracleAgent()
    world.reset(seed=seed)
    while True:
        _, _, terminated, truncated, info = world.step(oracle.write(world))
        if terminated or truncated:
            return list(world.state.calls), info


@pytest.mark.parametrize("num_candidates", [1, 2, 4])
@pytest.mark.parametrize("track", TRACKS)
@pytest.mark.sample(3)
def test_the_oracle_is_right_and_its_calls_work(track, num_candidates):
    world = make(tracks=track, num_candidates=num_candidates)
    for seed in range(5):
        calls, info = play(world, seed)
        assert info["success"]
        assert info["metrics"]["score"] == info["metrics"][f"score_{track}"] == 1.0
        named = {call.name for call in calls if call.succeeded}
        expected = {"fine_grained": {"image_zoom_in_tool"}, "document": set(PAGES)}.get(track, set(CHECKERS))
        assert named <= expected
        assert named or world.state.sample.evidence == ()


def test_the_oracle_opens_the_page_that_decides():
    world = make(tracks="document")
    for seed in range(8):
        calls, _ = play(world, seed)
        pages = [json.loads(call.text)["arguments"]["image_idx"] for call in calls if call.name == PAGES[1]]
        assert pages == list(world.state.sample.evidence_pages)


def test_responses_are_shown_behind_bars_and_not_in_the_question():
    world = make(tracks="instruction_following")
    observation, _ = world.reset(seed=1)
    for name, text in world.state.sample.texts:
        assert f"{name}:\n{quotation(text)}\n" in observation["text"]
        assert text.split("\n")[0] not in world.state.sample.question


def test_a_document_is_shown_as_a_contact_sheet_and_a_picture_within_its_budget():
    document, _ = make(tracks="document").reset(seed=0)
    assert len(document["images"]) == 1
    assert "5 pages" in document["text"]
    picture, _ = make(tracks="fine_grained", max_pixels=40_000).reset(seed=0)
    height, width, _ = picture["images"][0].shape
    assert 30_000 < height * width <= 40_000
    nothing, _ = make(tracks="instruction_following").reset(seed=0)
    assert nothing["images"] == ()


@pytest.mark.parametrize(
    ("tracks", "names"),
    [
        ("fine_grained", ("image_zoom_in_tool",)),
        ("document", ("image_zoom_in_tool", *PAGES)),
        ("instruction_following", tuple(CHECKERS)),
        (TRACKS, ("image_zoom_in_tool", *PAGES, *CHECKERS)),
    ],
)
def test_the_prompt_describes_the_tools_of_the_tracks(tracks, names):
    world = make(tracks=tracks)
    observation, _ = world.reset(seed=0)
    described = [line for line in observation["text"].split("\n") if line.startswith('{"type": "function"')]
    assert tuple(json.loads(line)["function"]["name"] for line in described) == names
    assert world.dynamics.context.tools(world.state.sample).names == names


def test_without_tools_there_is_one_turn_and_no_word_of_them():
    world = make(tools=False)
    observation, _ = world.reset(seed=0)
    assert "tool" not in observation["text"]
    assert world.max_turns == 1
    with pytest.raises(ConfigError, match="prompt_format must be one of 'direct'"):
        make(tools=False, prompt_format="arm")


def test_both_orders_of_a_seed_are_one_case():
    forward, backward = make(num_candidates=4), make(num_candidates=4, reverse_order=True)
    for seed in range(4):
        forward.reset(seed=seed)
        backward.reset(seed=seed)
        one, other = forward.state.sample, backward.state.sample
        assert [text for _, text in one.texts] == [text for _, text in other.texts][::-1]
        assert int(one.key.answers[0]) + int(other.key.answers[0]) == 5


def test_a_wrong_answer_and_a_repeated_call_earn_nothing():
    world = make(tracks="instruction_following")
    world.reset(seed=0)
    call = world.write_response(world.dynamics.plan(world.state)[:1])
    for _ in range(2):
        _, reward, terminated, _, _ = world.step(call)
        assert (reward, terminated) == (0.0, False)
    wrong = "2" if world.state.sample.key.answers[0] == "1" else "1"
    _, reward, terminated, _, info = world.step(f"<think>x</think><answer>{wrong}</answer>")
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    assert info["metrics"]["score_instruction_following"] == 0.0
    assert info["metrics"]["calls"] == 2.0


def test_rows_of_a_local_data_set_can_be_judged(tmp_path):
    row = {"id": 1, "track": "instruction_following", "question": "Say hi.", "responses": ["Hi.", "Ho."], "answer": 1}
    (tmp_path / "armbench_vl.jsonl").write_text(json.dumps(row))
    world = make(dataset="armbench_vl", folder=str(tmp_path), split="test")
    world.reset(seed=0)
    assert dict(world.state.sample.texts)[f"resp_{world.state.sample.key.answers[0]}"] == "Hi."
    _, info = play(world, 0)
    assert info["success"]


def test_misuse_is_explained(tmp_path):
    with pytest.raises(ConfigError, match="both dataset and folder"):
        make(dataset="armbench_vl")
    with pytest.raises(ConfigError, match=r"^dataset must be one of 'vl_rewardbench', "):
        make(dataset="nope", folder=str(tmp_path))
    with pytest.raises(ConfigError, match=r"^folder must be a folder's path; got ''\."):
        make(dataset="armbench_vl", folder="")
    with pytest.raises(ConfigError, match="or a source"):
        make(dataset="armbench_vl", folder=str(tmp_path), source=JudgingSource())
    with pytest.raises(ConfigError, match="Did you mean 'document'"):
        make(tracks="documents")
    with pytest.raises(ConfigError, match="1, 2 or 4"):
        make(num_candidates=3)
    with pytest.raises(ConfigError, match=r"checks must be one of .*Did you mean 'check_number_precision_in_response'"):
        make(checks="check_number_precision")
    with pytest.raises(ConfigError, match="checks must name at least one check"):
        make(checks=())
    with pytest.raises(ConfigError, match="from 1 to 4; got 0 to 2"):
        make(num_requirements=(0, 2))


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\n\nb", "| a\n|\n| b"), ("<x>", "| ‹x›"), ("a\u2028b\x0bc", "| a\n| b\n| c"), ("\ud800", "| ?"), ("", "")],
)
def test_a_quotation_has_a_bar_on_every_line_and_no_tags(text, shown):
    assert quotation(text) == shown


@pytest.mark.parametrize(
    ("num_candidates", "words"), [(1, {"True", "False"}), (2, {"1", "2"}), (4, {"1", "2", "3", "4"})]
)
def test_a_guess_is_one_of_the_verdicts_that_are_asked_for(num_candidates: int, words: set[str]) -> None:
    world = make(num_candidates=num_candidates, tracks=("fine_grained",), prompt_format="direct")
    world.reset(seed=0)
    guesses = {
        world.task.write_action(world.task.sample_action(world.state, np.random.default_rng(n))) for n in range(32)
    }
    assert guesses == words


WORDS, SENTENCES = "check_whether_response_word_count_in_range", "check_whether_response_sentence_number_in_range"


def test_only_the_checks_that_are_named_are_required_and_can_be_called() -> None:
    world = make(tracks="instruction_following", checks=(WORDS, SENTENCES), num_requirements=1)
    prompt = world.reset(seed=0)[0]["text"]
    assert {name for name in CHECKERS if f'"{name}"' in prompt} == {WORDS, SENTENCES}
    required = set()
    for seed in range(8):
        world.reset(seed=seed)
        source = world.dynamics.context.source
        (constraint,) = source.case(world.state.sample.sample_id).constraints
        required.add(constraint.checker)
    assert required == {WORDS, SENTENCES}


def test_a_case_of_some_checks_is_found_again_by_its_id_alone() -> None:
    narrow = JudgingSource(
        tracks=("instruction_following",), requirements=Requirements(checks=(WORDS, SENTENCES), number=(1, 1))
    )
    sample_id, case = narrow.draw_case(np.random.default_rng(3), "train")
    assert JudgingSource().case(sample_id) == case


@pytest.mark.parametrize("seed", range(12))
def test_of_a_pair_the_first_response_is_checked_until_it_fails(seed: int) -> None:
    world = make(tracks="instruction_following")
    calls, info = play(world, seed)
    case = world.dynamics.context.source.case(world.state.sample.sample_id)
    required, flaw = [each.checker for each in case.constraints], case.candidates[0].flaw
    if flaw is not None:
        required = required[: required.index(flaw.kind.partition(":")[2]) + 1]
    checked = [json.loads(call.text) for call in calls]
    assert [(call["name"], call["arguments"]["response"]) for call in checked] == [
        (each, "resp_1") for each in required
    ]
    assert info["success"]


def test_an_expert_that_checks_nothing_does_not_say_that_it_did() -> None:
    world = make(tracks="instruction_following", num_requirements=1)
    world.reset(seed=0)
    assert "at a glance" in OracleAgent(suboptimal_rate=1.0).write(world)
