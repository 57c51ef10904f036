"""`python -m judges calibrate` against endpoints that answer and that do not, and `python -m judges score`."""

import json
import math
import socket

import pytest

from judges.__main__ import main
from judges.calibration import Agreement, report
from tests.unit.agents.api.endpoint import YES, status

AT = "--judge-endpoint"


def test_a_judge_model_is_calibrated_and_its_cost_told(endpoint, tmp_path, capsys, prices_of):
    def answer(messages):
        # A judge that compares letter by letter.
        truth, text = (json.loads(line) for line in messages[1]["content"].splitlines() if line.startswith(("[", '"')))
        return f"<answer>{'YES' if text == '. '.join(truth) + '.' else 'NO'}</answer>"

    endpoint.answer = answer
    command = ["calibrate", "VLM/FrozenLake-v0", "--judge", "direct", "--num-states", "4", f"{AT}.model", "letters"]
    command += [
        f"{AT}.base-url",
        endpoint.base_url,
        f"{AT}.api-key-variable",
        "JUDGE_KEY",
        f"{AT}.cache-dir",
        str(tmp_path),
    ]
    command += [f"{AT}.prices", str(prices_of(10.0, model="letters"))]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "direct letters, grounding" in printed and "accuracy     1.000" in printed
    # 12 questions of 100 tokens at 10 USD a million.
    assert "12 questions (0 cached, 0 unavailable)" in printed and "0.0120 USD" in printed
    assert main(command) == 0
    assert "12 questions (12 cached, 0 unavailable), 0 requests" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ([f"{AT}.max-attempts", "0"], f"{AT}.max-attempts must be at least 1; got 0.\n"),
        ([f"{AT}.prices", "nowhere.toml"], "Cannot read the prices in nowhere.toml"),
        ([f"{AT}.timeout-s", "nan"], f"{AT}.timeout-s must be above 0; got nan.\n"),
        (
            [f"{AT}.base-url", "localhost"],
            f"{AT}.base-url must be the endpoint's address with its version, such as http",
        ),
        (["--seed", "-1"], "--seed must be at least 0; got -1.\n"),
        (
            [f"{AT}.api-key-variable", "NO_SUCH_KEY"],
            "The key of m is expected in the environment variable NO_SUCH_KEY, which is not set. "
            f"Set it, or use {AT}.api-key-variable '' for an endpoint without keys.",
        ),
        (["--num-states", "0"], "--num-states must be at least 2; got 0.\n"),
        (["--threshold", "2"], "--threshold must be above 0 and at most 1; got 2.0.\n"),
    ],
)
def test_options_out_of_range_are_named_as_they_were_typed(option, said, capsys):
    command = [
        "calibrate",
        "VLM/FrozenLake-v0",
        "--judge",
        "direct",
        f"{AT}.model",
        "m",
        f"{AT}.base-url",
        "http://127.0.0.1:1/v1",
    ]
    assert main([*command, *option]) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_unavailable_verdicts_are_reported_beside_the_verdicts_there_are(endpoint, capsys):
    said = iter(["no verdict", "no verdict"])  # The first question is asked twice; every other one has its answer.
    endpoint.answer = lambda messages: next(said, YES)
    command = ["calibrate", "VLM/FrozenLake-v0", "--judge", "direct", "--num-states", "4", f"{AT}.model", "shy"]
    command += [f"{AT}.max-parallel", "1"]
    assert main([*command, f"{AT}.base-url", endpoint.base_url, f"{AT}.api-key-variable", ""]) == 0
    printed = capsys.readouterr().out
    assert "unavailable  1\n" in printed
    assert "nan" not in printed


def test_kinds_of_text_without_a_verdict_have_no_score_and_no_nan():
    shares = {"own": 0.5, "other": math.nan, "perturbed": math.nan}
    texts = {"own": 2, "other": 2, "perturbed": 0}
    found = Agreement(
        num_true_yes=2,
        num_false_no=0,
        num_false_yes=0,
        num_true_no=0,
        num_unavailable=2,
        mean_scores=shares,
        num_texts=texts,
    )
    printed = report(found, "title", "none")
    assert "own 0.500 (n=2), other undefined (n=2), perturbed undefined (n=0)" in printed
    assert "kappa        undefined" in printed
    assert "nan" not in printed


def test_a_model_without_one_verdict_leaves_nothing_to_report(endpoint, capsys):
    endpoint.answer = lambda messages: "no verdict"
    command = ["calibrate", "VLM/FrozenLake-v0", "--judge", "direct", "--num-states", "4", f"{AT}.model", "mute"]
    assert main([*command, f"{AT}.base-url", endpoint.base_url, f"{AT}.api-key-variable", ""]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"mute at {endpoint.base_url} gave no verdict on any of 12" in printed.err


@pytest.fixture
def nobody():
    """The address of a port on loopback that is kept free: whoever calls is refused at once."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))  # Bound and not listening
        yield f"http://127.0.0.1:{kept.getsockname()[1]}/v1"


JUDGES = {
    "direct": ["VLM/FrozenLake-v0", "--judge", "direct"],
    "extraction": ["VLM/FrozenLake-v0", "--judge", "extraction"],
    "agentic": ["VLM/RewardJudging-v0", "--judge", "agentic"],
}


@pytest.mark.parametrize("kind", JUDGES)
def test_an_endpoint_that_is_not_there_is_one_error_before_any_question(kind, nobody, capsys):
    if kind == "agentic":
        pytest.importorskip("reportlab", reason="needs reportlab: pip install '.[tools]'")
    limits = [f"{AT}.max-attempts", "1", f"{AT}.timeout-s", "5", f"{AT}.api-key-variable", ""]
    assert main(["calibrate", *JUDGES[kind], f"{AT}.model", "m", f"{AT}.base-url", nobody, *limits]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "--judge-endpoint does not answer" in printed.err
    assert "no connection" in printed.err and "Nothing was measured." in printed.err


def test_a_key_that_is_refused_is_one_error_too(endpoint, capsys):
    endpoint.on_probe = status(401, "no such key")
    command = [
        "calibrate",
        "VLM/FrozenLake-v0",
        "--judge",
        "direct",
        f"{AT}.model",
        "m",
        f"{AT}.api-key-variable",
        "JUDGE_KEY",
    ]
    assert main([*command, f"{AT}.base-url", endpoint.base_url]) == 2
    assert "no such key" in capsys.readouterr().err
    assert not endpoint.requests


def test_the_exact_judge_asks_no_endpoint(nobody, capsys):
    command = ["calibrate", "VLM/FrozenLake-v0", "--num-states", "2", f"{AT}.model", "m", f"{AT}.base-url", nobody]
    assert main(command) == 0
    assert "exact judge" in capsys.readouterr().out


@pytest.mark.parametrize("state", ["oops", "3", "[1]", "null", '"text"'])
def test_a_state_that_is_none_is_told_what_was_expected(state, capsys):
    assert main(["score", "VLM/Sokoban-v0", "The box is above.", "--state", state]) == 2
    printed = capsys.readouterr().err
    assert "--state takes a world's whole state as a JSON object" in printed
    assert "player_position" in printed and f"got {state!r}" in printed


def test_a_state_of_another_world_is_told_so(capsys):
    assert main(["score", "VLM/Sokoban-v0", "The box is above.", "--state", '{"player_position": [1, 2]}']) == 2
    assert "another world's state" in capsys.readouterr().err
