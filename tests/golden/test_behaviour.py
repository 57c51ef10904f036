"""The script that compares two checkouts sees what it should, down to a byte."""

from __future__ import annotations

import json

import numpy as np
import pytest

from agents.oracle import OracleAgent
from tests.golden.behaviour import _listed_options, _play, _scores, _shown, compare, digest, main
from training.config.world_spec import WorldSpec

LAKE = WorldSpec(env_id="VLM/FrozenLake-v0")


def test_one_byte_of_a_picture_changes_the_digest():
    played = [_shown(each) for each in _play(LAKE, OracleAgent(), "test")]
    again = [_shown(each) for each in _play(LAKE, OracleAgent(), "test")]
    assert digest(played) == digest(again)
    again[0][1][0][0]["image"] = again[0][1][0][0]["image"].copy()
    again[0][1][0][0]["image"][5, 7, 1] ^= 1
    assert digest(played) != digest(again)


def test_scores_and_rewards_are_in_the_digest():
    right = _play(LAKE, OracleAgent(), "test")
    wrong = _play(LAKE, OracleAgent(mistake_rate=1.0), "test")
    assert _scores(right) != _scores(wrong)
    assert digest(1.0) != digest(1.0 + 1e-16 * 3) != digest(1)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest(np.zeros(2, np.float32)) != digest(np.zeros(2, np.float64))


def test_two_records_are_compared_line_by_line(tmp_path, capsys):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps({"a": "1", "b": "2"}))
    after.write_text(json.dumps({"a": "1", "b": "3", "c": "4"}))
    assert compare({"a": "1"}, {"a": "1"}) == []
    assert main(["compare", str(before), str(after)]) == 1
    assert capsys.readouterr().out == "b: 2 before, 3 after\nc: missing before, 4 after\n"
    assert main(["compare", str(before), str(before)]) == 0
    with pytest.raises(SystemExit):
        main(["compare"])


def test_lists_are_compared_name_by_name():
    before, after = {"options/x": "--a --b --c"}, {"options/x": "--a --c --d"}
    assert compare(before, after) == ["options/x: only before: --b; only after: --d"]


def test_options_of_a_command_are_recorded():
    options = _listed_options("benchmarks power")
    assert {"--alpha", "--models", "--power", "--worlds"} <= set(options)
    assert "--help" not in options
