"""The same levels in several views: what is played, and what the gaps between them say."""

from pathlib import Path

import pytest

from agents.blind_script import ScriptAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.measures.measures import rows
from benchmarks.models.measures.perception_gaps import WITH_WORDS, gaps_text, perception_gaps, split_views, view_of
from benchmarks.models.play.contestants import contestants
from benchmarks.models.play.playing import BoardRun, RunPlan
from tests.unit.benchmarks.models.made import episode
from vlm_envs.errors import ConfigError

LAKE = "VLM/FrozenLake-v0:prompt_format=no_think,size=3"
VIEWS = [
    {"label": f"W{view}", "env_id": "VLM/FrozenLake-v0", "kwargs": {"obs_mode": view} if view else {}, "split": "test"}
    for view in ("", *WITH_WORDS)
]
HERE = "tests.unit.benchmarks.models.test_perception"


def blind() -> ScriptAgent:
    """Returns an agent that looks at nothing."""
    return ScriptAgent(("<answer>Right</answer>", "<answer>Down,Down</answer>"))


def in_view(view, seed, success, **told):
    return episode(seed=seed, success=success, world=f"W{view}", start_state_hash=f"start {seed}", **told)


def of_view(gaps, view):
    return next(gap for gap in gaps if gap.view == view)


class TestViews:
    def test_a_grid_world_has_all(self):
        views, told = split_views(WorldSpec.parse(LAKE))
        assert [view_of(view.record(Path())) for view in views] == ["text", "image+text", "image+description"]
        assert view_of(WorldSpec.parse(LAKE).record(Path())) == "image"
        assert told == ""

    def test_where_words_tell_the_answer_only_the_description_is_played(self):
        views, told = split_views(WorldSpec.parse("VLM/ZoomQA-v0:prompt_format='direct'"))
        assert [view.kwargs["obs_mode"] for view in views] == ["image+description"]
        assert told == (
            "VLM/ZoomQA-v0:prompt_format=direct is not played as text and image+text, because its text contains "
            "the right answer."
        )

    @pytest.mark.parametrize(
        ("world", "told"),
        [
            ("VLM/FrozenLake-v0:obs_mode='text'", "chooses obs_mode; leave it out"),
            ("VLM/RewardJudging-v0", "no view but its image, because its text contains the right answer"),
        ],
    )
    def test_worlds_that_cannot_be_split(self, world, told):
        with pytest.raises(ConfigError, match=told):
            split_views(WorldSpec.parse(world))


class TestGaps:
    def test_they_are_paired_with_the_picture(self):
        seen = [in_view("", seed, seed in (0, 1)) for seed in range(12)]
        read = [in_view("text", seed, seed >= 1) for seed in range(12)]
        (gap,) = perception_gaps([*seen, *read], VIEWS)
        assert (gap.agent, gap.world, gap.view, gap.num_levels) == ("A", "VLM/FrozenLake-v0", "text", 12)
        assert (gap.seen, gap.told, gap.gap) == (2 / 12, 11 / 12, pytest.approx(9 / 12))
        assert gap.p_value == pytest.approx(2 * 12 / 2**11)  # 1 lost and 10 won: 11 changed, 1 or none of them lost
        assert gap.interval.low < 9 / 12 < gap.interval.high
        assert gap.reward.mean == pytest.approx(9 / 12)

    def test_other_levels_errors_and_other_starts_are_no_pairs(self):
        played = [
            in_view("", 0, True),
            in_view("", 1, True),
            in_view("", 2, True),
            in_view("", 3, True),
            in_view("text", 1, False),
            in_view("text", 2, False, error="429"),
            in_view("text", 3, False) | {"start_state_hash": "another"},
            in_view("text", 4, False),
        ]
        (gap,) = perception_gaps(played, VIEWS)
        assert (gap.num_levels, gap.gap) == (1, -1.0)

    def test_without_the_picture_there_is_nothing_to_compare_with(self):
        assert perception_gaps([in_view("text", 0, True)], VIEWS) == []
        assert perception_gaps([in_view("", 0, True)], VIEWS) == []

    def test_they_are_corrected_for_all_gaps_of_the_world(self):
        seen = [in_view("", seed, False) for seed in range(8)]
        views = {"text": 8, "image+text": 6, "image+description": 0}
        told = [in_view(view, seed, seed < most) for view, most in views.items() for seed in range(8)]
        gaps = perception_gaps([*seen, *told], VIEWS)
        assert [gap.p_value for gap in gaps] == pytest.approx([3 * 2 / 2**8, 2 * 2 / 2**6, 1.0])
        assert of_view(gaps, "image+description").interval.low < 0 < of_view(gaps, "image+description").interval.high

    def test_repeats_of_a_level_are_taken_together(self):
        played = [
            in_view(view, seed, view == "text", repeat=repeat)
            for view in ("", "text")
            for seed in range(3)
            for repeat in range(9)
        ]
        (gap,) = perception_gaps(played, VIEWS)
        assert (gap.num_levels, gap.gap, gap.p_value) == (3, 1.0, 0.25)

    def test_as_a_table(self):
        text = gaps_text(perception_gaps([in_view("", 0, False), in_view("text", 0, True)], VIEWS))
        assert "lost by seeing" in text
        assert "+1.000 (" in text


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A board of an oracle and of somebody who does not look, in all views."""
    out = tmp_path_factory.mktemp("boards") / "views"
    seen = WorldSpec.parse(LAKE)
    plan = RunPlan(worlds=[seen, *split_views(seen)[0]], episodes=6)
    BoardRun(plan, contestants(["oracle", f"{HERE}:blind"], references=False), out).run()
    return Board(out)


def test_an_oracle_loses_nothing_by_seeing_and_neither_does_who_does_not_look(played):
    gaps = perception_gaps(played.episodes(), played.record["worlds"])
    assert {(gap.agent, gap.view) for gap in gaps} == {
        (agent, view) for agent in ("oracle", f"{HERE}:blind") for view in WITH_WORDS
    }
    num_levels = len({episode["start_state_hash"] for episode in played.episodes()})
    for gap in gaps:
        assert (gap.num_levels, gap.gap, gap.p_value, gap.reward.mean) == (num_levels, 0.0, 1.0, 0.0)
        assert gap.interval.low < 0 < gap.interval.high  # so few levels prove nothing


def test_views_differ_in_what_is_shown_and_in_nothing_else(played):
    by_view = {}
    for each in played.episodes():
        if each["agent"] == "oracle" and each["seed"] == 1_500_000_000:
            by_view[each["world"].partition("obs_mode=")[2].partition(",")[0]] = each
    first = {view: each["turns"][0] for view, each in by_view.items()}
    assert {view: len(turn["images"]) for view, turn in first.items()} == {
        "": 1,
        "text": 0,
        "image+text": 1,
        "image+description": 1,
    }
    assert len({each["start_state_hash"] for each in by_view.values()}) == 1
    prompt = first[""]["text"]
    assert all(turn["text"].startswith(prompt) for turn in first.values())
    assert first["text"]["text"] == first["image+text"]["text"] == f"{prompt}\n{first['']['state_text']}"


class TestCommand:
    @pytest.mark.usefixtures("short_search")
    def test_agents_play_all_views_and_references_the_picture_only(self, tmp_path, capsys):
        words = ["--agent", f"{HERE}:blind", "--world", LAKE, "--episodes", "2", "--out", str(tmp_path / "board")]
        assert main(["run", *words, "--split-perception"]) == 0
        board = Board(tmp_path / "board")
        views = {world["label"]: view_of(world) for world in board.record["worlds"]}
        played = {(each["agent"], views[each["world"]]) for each in board.episodes()}
        assert played == {(agent, "image") for agent in ("random", "lazy", "oracle")} | {
            (f"{HERE}:blind", view) for view in ("image", *WITH_WORDS)
        }
        assert "lost by seeing" in capsys.readouterr().out
        assert {(row.agent, row.view) for row in rows(board.episodes(), board.record["worlds"])} == played
        before = board.episodes()
        assert main(["run", *words, "--split-perception"]) == 0
        assert board.episodes() == before

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--world", LAKE], "Name whose sight is measured: --agent NAME"),
            (["--agent", "oracle", "--world", "VLM/RewardJudging-v0"], "has no view but its image"),
            (["--agent", "oracle", "--world", f"{LAKE},obs_mode='text'"], "chooses obs_mode; leave it out"),
        ],
    )
    def test_what_cannot_be_split_is_refused_before_anything_is_played(self, tmp_path, words, told, capsys):
        assert main(["run", *words, "--split-perception", "--out", str(tmp_path / "board")]) == 2
        assert told in capsys.readouterr().err
        assert not (tmp_path / "board").exists()
