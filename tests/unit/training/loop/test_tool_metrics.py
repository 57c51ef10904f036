"""What is logged of tools and of thoughts."""

from __future__ import annotations

from types import SimpleNamespace

from training.loop.tracking.metrics import _thought_score, _tool_used


def test_tools_are_logged_where_there_are_any():
    ends = [{"calls": 2.0, "successful_calls": 1.0}, {"calls": 1.0, "successful_calls": 0.0}, {"similarity": 0.5}]
    played = [SimpleNamespace(turns=[SimpleNamespace(info={}), SimpleNamespace(info={"metrics": end})]) for end in ends]
    assert _tool_used(played) == {"tool_used": 0.5}
    assert _tool_used(played[2:]) == {}


def test_thoughts_are_averaged_over_the_turns_that_have_a_place_for_them():
    def turn(said, **seen):
        return SimpleNamespace(info={"format_correct": True, "sections": {"think": said}}, seen_sections=seen)

    turns = [turn("1 ahead", think="1 ahead"), turn("1 ahead", think="2 ahead"), turn("1 ahead")]
    assert _thought_score(turns) == {"thought_score": 0.5}
    assert _thought_score(turns[2:]) == {}
