"""What is logged of tools, of thoughts, and of turns to success."""

from __future__ import annotations

from types import SimpleNamespace

from training.loop.metrics import _thought_score, _tool_used, _turns_to_success


def test_tools_are_logged_where_there_are_any():
    ends = [("a", {"successful_calls": 1.0}), ("a", {"successful_calls": 0.0}), ("b", {"similarity": 0.5})]
    ends.append(("c", {"successful_calls": 2.0}))
    played = [
        SimpleNamespace(world=world, turns=[SimpleNamespace(info={}), SimpleNamespace(info={"metrics": end})])
        for world, end in ends
    ]
    assert _tool_used(played[:2]) == {"tool_used": 0.5}
    assert _tool_used(played) == {"tool_used": 2 / 3, "tool_used/a": 0.5, "tool_used/c": 1.0}
    assert _tool_used(played[2:3]) == {}
    assert _tool_used(played[1:2]) == {"tool_used": 0.0}, "who never calls a tool that there is has none to thank"


def test_thoughts_are_averaged_over_the_turns_that_have_a_place_for_them():
    def turn(said, **seen):
        return SimpleNamespace(info={"format_correct": True, "sections": {"think": said}}, seen_sections=seen)

    def episode(world, *turns):
        return SimpleNamespace(world=world, turns=turns)

    half, silent = [turn("1 ahead", think="1 ahead"), turn("1 ahead", think="2 ahead")], turn("1 ahead")
    assert _thought_score([episode("a", *half, silent)]) == {"thought_score": 0.5}
    assert _thought_score([episode("a", silent)]) == {}
    mixed = [episode("a", *half), episode("b", half[0]), episode("c", silent)]
    assert _thought_score(mixed) == {"thought_score": 2 / 3, "thought_score/a": 0.5, "thought_score/b": 1.0}


def test_turns_to_success_are_those_of_solved_episodes_and_absent_without_any():
    played = [
        SimpleNamespace(world=world, turns=[None] * num_turns, success=success)
        for world, num_turns, success in [("a", 1, True), ("a", 3, False), ("b", 2, True), ("c", 3, False)]
    ]
    assert _turns_to_success(played[:2]) == {"turns_to_success": 1.0}
    assert _turns_to_success(played) == {"turns_to_success": 1.5, "turns_to_success/a": 1.0, "turns_to_success/b": 2.0}
    assert _turns_to_success(played[3:]) == {}
