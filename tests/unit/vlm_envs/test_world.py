"""What `World` owns for every world: limits, rewards, prompts, truncation, info. On a corridor, by hand."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.unit.vlm_envs.corridor import CorridorDynamics, CorridorState, CorridorTask, CorridorView, CorridorWorld
from vlm_envs import make
from vlm_envs.errors import ConfigError, EpisodeOverError, SolverLimitError
from vlm_envs.responses.formats import FORMATS, ResponseFormat
from vlm_envs.statistics.success_rates import cluster_of, share_interval, wilson_interval
from vlm_envs.world import World

FAR = {"level": "10 16"}  # six cells to the right


def world(**kwargs: Any) -> CorridorWorld:
    return CorridorWorld(**{"prompt_format": "no_think", **kwargs})


def say(actions: str) -> str:
    return f"<answer>{actions}</answer>"


class PlainTask(CorridorTask):
    representations = ("structured",)
    representation_help = {"structured": "Write a dictionary."}  # noqa: RUF012
    formats = {"free_think": FORMATS["free_think"]}  # noqa: RUF012


def test_a_world_with_one_representation_and_one_strategy_is_made_without_naming_them() -> None:
    plain: World[Any, Any] = World(CorridorDynamics(), CorridorView(), PlainTask())
    assert (plain.representation, plain.prompt_format) == ("structured", "free_think")
    usual = CorridorWorld()
    assert (usual.representation, usual.prompt_format) == ("natural_language", "grounding_worldmodeling")
    with pytest.raises(ConfigError, match="representation must be one of 'structured'; got 'symbolic'"):
        World(CorridorDynamics(), CorridorView(), PlainTask(), representation="symbolic")


def test_judges_find_representation_and_strategy_in_every_info() -> None:
    corridor = world(representation="symbolic")
    _, info = corridor.reset(options=FAR)
    *_, after = corridor.step("nonsense")
    for each in (info, after):
        assert (each["representation"], each["prompt_format"]) == ("symbolic", "no_think")


# --- Actions and limits -----------------------------------------------------------------------------


def test_a_turn_carries_out_its_actions_in_order() -> None:
    corridor = world()
    corridor.reset(options=FAR)
    observation, reward, terminated, truncated, info = corridor.step(say("Right, Right, Left"))
    assert info["state"] == {"player_position": (0, 11), "target_position": (0, 16)}
    assert info["actions"] == ("Right", "Right", "Left")
    assert info["reward_terms"] == pytest.approx({"step": -0.3, "format": 0.5})
    assert reward == pytest.approx(0.2)
    assert (terminated, truncated, info["turn"], corridor.optimal_actions_left()) == (False, False, 1, 5)
    assert observation["text"] == "Done: Right, Right, Left.\nTurn 2 of 3."


def test_actions_after_the_end_of_the_world_are_not_carried_out_nor_paid() -> None:
    corridor = world()
    corridor.reset(options={"level": "0 1"})
    observation, reward, terminated, truncated, info = corridor.step(say("Right, Left, Left"))
    assert info["actions"] == ("Right",)
    assert reward == pytest.approx(10.0 - 0.1 + 0.5)
    assert (terminated, truncated, info["success"]) == (True, False, True)
    assert observation["text"] == "Done: Right.\nThe episode is over."


def test_success_in_the_last_turn_terminates_and_does_not_truncate() -> None:
    corridor = world(max_turns=2)
    corridor.reset(options=FAR)
    corridor.step(say("Right,Right,Right"))
    _, _, terminated, truncated, _ = corridor.step(say("Right,Right,Right"))
    assert (terminated, truncated) == (True, False)


def test_earlier_actions_stand_before_an_invalid_one() -> None:
    corridor = world()
    corridor.reset(options=FAR)
    observation, reward, *_, info = corridor.step(say("Right, Jump, Right"))
    assert info["state"]["player_position"] == (0, 11)
    assert info["reward_terms"] == pytest.approx({"step": -0.1})
    assert reward == pytest.approx(-0.1)
    assert not info["format_correct"]
    assert observation["text"] == (
        "Done: Right.\nNot in the format: 'Jump' is not an action; expected Left or Right.\nTurn 2 of 3."
    )


def test_an_effective_action_is_told_from_a_blocked_one() -> None:
    corridor = world()
    corridor.reset(options={"level": "0 5"})
    *_, info = corridor.step(say("Left"))
    assert (info["action_effective"], info["format_correct"]) == (False, True)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("Right, Right", "Done: Right, Right."),
        ("Left", "No effect: Left."),
        ("Left, Left", "No effect: Left, Left."),
        ("Left, Right, Left", "Done: Left (no effect), Right, Left."),
        ("Right, Left, Left", "Done: Right, Left, Left (no effect)."),
    ],
)
def test_what_had_no_effect_is_not_told_as_done(answer: str, told: str) -> None:
    """VAGEN's Navigation tells whether an action was carried out successfully; here every action is told apart."""
    corridor = world()
    corridor.reset(options={"level": "0 5"})
    observation, *_ = corridor.step(say(answer))
    assert observation["text"] == f"{told}\nTurn 2 of 3."
    *_, info = corridor.step(say("Left, Right"))
    assert info["action_effective"]


@pytest.mark.parametrize(
    ("response", "action_valid", "format_correct"),
    [
        (say("Right"), True, True),
        (say("Right, Left, Right, Jump"), True, True),  # the invalid one is beyond the cut
        (say("Right, Jump"), False, False),
        (say("Jump"), False, False),
        (say(""), False, False),
        ("Right", False, False),
    ],
)
def test_actions_are_valid_when_some_were_carried_out_and_none_was_invalid(
    response: str, action_valid: bool, format_correct: bool
) -> None:
    corridor = world()
    _, info = corridor.reset(options=FAR)
    assert info["action_valid"] is False, "nothing was carried out yet"
    *_, info = corridor.step(response)
    assert (info["action_valid"], info["format_correct"]) == (action_valid, format_correct)


def test_max_steps_cuts_inside_a_turn_and_truncates() -> None:
    corridor = world(max_steps=4)
    corridor.reset(options=FAR)
    _, _, _, truncated, _ = corridor.step(say("Right,Right,Right"))
    assert not truncated
    _, reward, terminated, truncated, info = corridor.step(say("Right,Right,Right"))
    assert info["actions"] == ("Right",)
    assert (terminated, truncated) == (False, True)
    assert reward == pytest.approx(-0.1 + 0.5)


def test_reset_starts_the_limits_anew() -> None:
    corridor = world(max_turns=1, max_steps=3)
    for _ in range(2):
        corridor.reset(options=FAR)
        *_, truncated, info = corridor.step(say("Right,Right,Right"))
        assert truncated
        assert len(info["actions"]) == 3


def test_steps_outside_an_episode_are_refused() -> None:
    corridor = world(max_turns=1)
    with pytest.raises(EpisodeOverError, match="reset"):
        corridor.step("")
    with pytest.raises(EpisodeOverError, match="no state yet"):
        _ = corridor.state
    corridor.reset(seed=0)
    corridor.step("")
    with pytest.raises(EpisodeOverError, match="reset"):
        corridor.step("")


@pytest.mark.parametrize("action", [2, None, ["Right"], b"<answer>Right</answer>"])
def test_an_action_that_is_no_string_is_refused(action: Any) -> None:
    corridor = world()
    corridor.reset(options=FAR)
    with pytest.raises(ConfigError, match=r"whole response, a string such as '<answer>\.\.\.</answer>'; got") as caught:
        corridor.step(action)
    assert type(action).__name__ in str(caught.value)
    *_, info = corridor.step(say("Right"))
    assert info["turn"] == 1, "the refused call took no turn"


class CountingDynamics(CorridorDynamics):
    """Counts its plans; with `gives_up` it has none for states in odd cells."""

    def __init__(self, *, gives_up: bool = False) -> None:
        self.planned: list[Any] = []
        self.gives_up = gives_up

    def cost_to_go(self, state: Any) -> int | None:
        self.planned.append(state)
        if self.gives_up and state.player % 2:
            raise SolverLimitError("too hard")
        return super().cost_to_go(state)


def counting(**kwargs: Any) -> tuple[CountingDynamics, World[Any, Any]]:
    dynamics = CountingDynamics(**kwargs)
    made: World[Any, Any] = World(dynamics, CorridorView(), CorridorTask(), prompt_format="no_think")
    made.set_picture_shape((2, 80, 3))
    return dynamics, made


def test_neither_step_nor_reset_plans() -> None:
    dynamics, made = counting()
    infos = [made.reset(options=FAR)[1], made.step(say("Right"))[-1]]
    assert not dynamics.planned
    assert not any("optimal_actions_left" in info for info in infos)


def test_optimal_actions_are_counted_on_request_and_once_per_state() -> None:
    dynamics, made = counting()
    made.reset(options=FAR)
    assert [made.optimal_actions_left() for _ in range(3)] == [6] * 3
    made.step(say("Right"))
    assert made.optimal_actions_left() == 5
    made.step(say("Left"))
    assert made.optimal_actions_left() == 6
    assert len(dynamics.planned) == 2


class UnhashableState(CorridorState):
    __hash__ = None  # type: ignore[assignment]


def test_states_that_cannot_be_hashed_are_counted_too() -> None:
    dynamics, made = counting()
    dynamics.load = lambda level: UnhashableState(player=10, goal=16)  # type: ignore[method-assign]
    made.reset(options=FAR)
    assert [made.optimal_actions_left() for _ in range(2)] == [6, 6]


def test_a_reset_may_ask_for_counts_which_are_left_out_where_they_are_unknown() -> None:
    _, made = counting(gives_up=True)
    _, info = made.reset(options={**FAR, "optimal_actions": True})
    assert info["optimal_actions_left"] == 6
    *_, info = made.step(say("Right"))
    assert "optimal_actions_left" not in info and info["action_valid"]
    assert made.optimal_actions_left() is None
    _, info = made.reset(options=FAR)
    assert "optimal_actions_left" not in info, "it is asked for episode by episode"
    with pytest.raises(ConfigError, match=r"options\['optimal_actions'\] must be True or False; got 'yes'"):
        made.reset(options={"optimal_actions": "yes"})
    with pytest.raises(ConfigError, match="Did you mean 'optimal_actions'"):
        made.reset(options={"optimal_action": True})
    with pytest.raises(EpisodeOverError, match="call reset"):
        counting()[1].optimal_actions_left()


# --- Images -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "came"),
    [
        (np.zeros((2, 80, 3)), r"float64\[2, 80, 3\]"),
        (np.zeros((2, 80, 3), bool), r"bool\[2, 80, 3\]"),
        (np.zeros((2, 80), np.uint8), r"uint8\[2, 80\]"),
        (np.zeros((2, 80, 1), np.uint8), r"uint8\[2, 80, 1\]"),
        (np.zeros((2, 80, 4), np.uint8), r"uint8\[2, 80, 4\]"),
        (np.zeros((2, 80, 3), np.int64), r"int64\[2, 80, 3\]"),
        (np.zeros((0, 80, 3), np.uint8), r"uint8\[0, 80, 3\]"),
        ([[0, 0, 0]], "list"),
    ],
)
def test_images_of_another_kind_are_refused_with_conversions(image: Any, came: str) -> None:
    corridor, several = world(), world()
    corridor.view.image = lambda _: image  # type: ignore[method-assign]
    several.view.images = lambda _: (np.zeros((9, 9, 3), np.uint8), image)  # type: ignore[method-assign]
    rendered = world(render_mode="rgb_array", obs_mode="text")
    rendered.reset(options=FAR)
    rendered.view.image = corridor.view.image  # type: ignore[method-assign]
    expected = rf"uint8\[height, width, 3\], RGB from 0 to 255; got {came}\. Conversions: .*astype\(numpy\.uint8\)"
    with pytest.raises(ConfigError, match=expected):
        rendered.render()
    for made in (corridor, several):
        with pytest.raises(ConfigError, match=expected) as caught:
            made.reset(options=FAR)
        assert "\n" not in str(caught.value)


# --- Making -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "wrong", "hint"),
    [
        ("VLM/Sokoban-v0", "num_boxs", "Did you mean 'num_boxes'"),  # of the world itself
        ("VLM/FrozenLake-v0", "promt_format", "Did you mean 'prompt_format'"),  # of the base class
        ("VLM/FrozenLake-v0", "num_boxes", "Its arguments are size, is_slippery"),
    ],
)
def test_an_unknown_argument_suggests_the_nearest(env_id: str, wrong: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"has no argument '{wrong}'") as caught:
        make(env_id, **{wrong: 1})
    assert hint in str(caught.value)


def test_a_type_error_inside_a_constructor_is_not_taken_for_an_unknown_argument() -> None:
    with pytest.raises(TypeError, match="len"):
        make("VLM/Sokoban-v0", dim_room=6)


# --- Rewards ----------------------------------------------------------------------------------------


def test_format_reward_is_an_argument() -> None:
    corridor = world(format_reward=0.25)
    corridor.reset(options=FAR)
    _, reward, *_ = corridor.step(say("Right"))
    assert reward == pytest.approx(0.15)


def test_a_turn_without_an_action_costs_the_noop_terms() -> None:
    corridor = world()
    corridor.reset(options=FAR)
    observation, reward, *_, info = corridor.step("Right")
    assert reward == pytest.approx(-0.1)
    assert info["reward_terms"] == {"step": -0.1}
    assert observation["text"] == ("Nothing was carried out.\nNot in the format: <answer> is missing.\nTurn 2 of 3.")


# --- Observations and prompts -----------------------------------------------------------------------


def test_the_first_text_is_the_whole_instruction() -> None:
    observation, info = world(max_turns=4, max_actions_per_turn=2).reset(options=FAR)
    assert observation["text"] == (
        "Game: Corridor. Walk to the goal.\n"
        "Actions: Left, Right. At most 2 a turn separated by ','; 4 turns.\n"
        "Respond with exactly: <answer>(your actions)</answer>"
    )
    assert info["reward_terms"] == {}
    assert info["parse_error"] is None
    assert info["turn"] == 0


@pytest.mark.parametrize("obs_mode", ["image", "text", "image+text"])
def test_modes(obs_mode: str) -> None:
    corridor = world(obs_mode=obs_mode)
    observation, info = corridor.reset(options=FAR)
    assert info["state_text"] == "The player is at (0, 10). The goal is at (0, 16)."
    assert observation["text"].endswith("\n" + info["state_text"]) == ("text" in obs_mode)
    assert ("image" in observation) == ("image" in obs_mode)
    assert observation in corridor.observation_space
    observation, *_ = corridor.step(say("Right"))
    assert ("The player is at (0, 11)" in observation["text"]) == ("text" in obs_mode)


def test_the_description_comes_with_the_picture_and_says_that_it_is_true() -> None:
    corridor = world(obs_mode="image+description")
    observation, _ = corridor.reset(options=FAR)
    assert observation["text"].endswith(
        "\nA true description of what is shown: The player is at (0, 10). The goal is at (0, 16)."
    )
    assert "image" in observation
    observation, *_ = corridor.step(say("Right"))
    assert "A true description of what is shown: The player is at (0, 11)." in observation["text"]


def test_the_image_is_of_the_state_after_the_step() -> None:
    corridor = world()
    corridor.reset(options=FAR)
    observation, *_ = corridor.step(say("Right"))
    red = np.argwhere(observation["image"][0, :, 0] == 255)[:, 0]
    assert red.tolist() == [22, 23], "cell 11 at two pixels a cell"


def test_sections_are_reported_for_judges() -> None:
    corridor = world(prompt_format="grounding_worldmodeling")
    corridor.reset(options=FAR)
    sections = {"observation": "at 10", "reasoning": "go", "prediction": "at 11", "answer": "Right"}
    *_, info = corridor.step(corridor.response_format.write(sections))
    assert info["sections"] == sections


@pytest.mark.parametrize(("render_mode", "frame"), [(None, None), ("ansi", "10 16")])
def test_render(render_mode: str | None, frame: str | None) -> None:
    corridor = world(render_mode=render_mode)
    corridor.reset(options=FAR)
    assert corridor.render() == frame


def test_render_picture() -> None:
    corridor = world(render_mode="rgb_array")
    observation, _ = corridor.reset(options=FAR)
    assert np.array_equal(np.asarray(corridor.render()), observation["image"])


# --- Seeds and options ------------------------------------------------------------------------------


def test_same_seed_same_level_and_other_seed_another() -> None:
    hashes = [world().reset(seed=seed)[1]["state_hash"] for seed in (1, 1, 2, 3, 4)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) > 2


def test_an_unseeded_reset_continues_the_generator() -> None:
    first, second = world(), world()
    for corridor in (first, second):
        corridor.reset(seed=5)
    firsts = [first.reset()[1]["state_hash"] for _ in range(5)]
    assert firsts == [second.reset()[1]["state_hash"] for _ in range(5)]
    assert len(set(firsts)) > 1, "every reset draws a new level"


def test_unknown_option_suggests_the_known_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'level'"):
        world().reset(options={"levels": "1 2"})


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("prompt_format", "groundin", "Did you mean 'grounding'"),
        ("representation", "structure", "Did you mean 'structured'"),
        ("obs_mode", "images", "Did you mean 'image'"),
        ("split", "validation", "'train', 'val', 'test'"),
        ("render_mode", "human", "rgb_array"),
        ("max_turns", 0, "at least 1; got 0"),
        ("max_actions_per_turn", 1.5, "got 1.5"),
        ("max_steps", -1, "got -1"),
    ],
)
def test_bad_arguments_say_what_to_do(name: str, value: object, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as caught:
        world(**{name: value})
    assert str(caught.value).startswith(name)


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("VLM/Sokoban-v0", "prompt_example"),
        ("VLM/FrozenLake-v0", "is_slippery"),
        ("VLM/Navigation-v0", "require_visible"),
        ("VLM/PrimitiveSkill-v0", "show_positions"),
        ("VLM/ZoomQA-v0", "blank_crops"),
        ("VLM/RewardJudging-v0", "tools"),
    ],
)
def test_a_word_is_no_switch(env_id, name):
    with pytest.raises(ConfigError, match=f"{name} must be True or False; got 'no'"):
        make(env_id, **{name: "no"})


class OneStartDynamics(CorridorDynamics):
    """All seeds start alike."""

    splits_differ = False

    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        return CorridorState(player=3, goal=6)


def test_where_all_seeds_start_alike_each_is_a_cluster_of_its_own() -> None:
    one_start = World(OneStartDynamics(), CorridorView(), CorridorTask())
    one_start.set_picture_shape((2, 80, 3))
    infos = [one_start.reset(seed=seed)[1] for seed in (4, 5, 5)]
    assert len({info["state_hash"] for info in infos}) == 1
    episodes = [
        {"seed": seed, "start_state_hash": info["state_hash"], "cluster": info["cluster"]}
        for seed, info in zip((4, 5, 5), infos, strict=True)
    ]
    assert len(set(map(cluster_of, episodes))) == 2
    assert share_interval(episodes[:2], [1, 0]) == wilson_interval(1, 2)


def test_a_reset_describes_its_state_once_and_keeps_the_instructions() -> None:
    corridor = world(obs_mode="text")
    with (
        patch.object(corridor.view, "describe", wraps=corridor.view.describe) as describe,
        patch.object(ResponseFormat, "skeletons", autospec=True, side_effect=ResponseFormat.skeletons) as skeletons,
    ):
        first = corridor.reset(seed=1)[0]
        num_skeletons = skeletons.call_count
        assert corridor.reset(seed=1)[0] == first
        corridor.step("")
    assert describe.call_count == 3
    assert skeletons.call_count == num_skeletons
