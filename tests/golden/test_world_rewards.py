"""What each event of the grid worlds pays. Source: VAGEN, Tables 16 and 17."""

import pytest

import vlm_envs

OPEN_LAKE = "P_G_\n____\n____\nO___"
ONE_BOX = "######\n#PXO_#\n#____#\n#____#\n#____#\n######"
TWO_BOXES = "######\n#PXO_#\n#____#\n#_XO_#\n#____#\n######"


def play(env_id, level, *answers, **kwargs):
    """Returns the reward, its terms and both ends of every turn of an episode."""
    env = vlm_envs.make(env_id, prompt_format="no_think", **kwargs)
    env.reset(seed=0, options={"level": level})
    turns = [env.step(f"<answer>{answer}</answer>") for answer in answers]
    return [(reward, info["reward_terms"], terminated, info["success"]) for _, reward, terminated, _, info in turns]


def test_frozen_lake_the_goal_pays_ten_and_every_other_move_costs_a_tenth():
    [(reward, terms, terminated, success)] = play("VLM/FrozenLake-v0", OPEN_LAKE, "Right, Right")
    assert terms == {"step": -0.1, "success": 10.0, "format": 0.5}
    assert reward == pytest.approx(-0.1 + 10.0 + 0.5)
    assert terminated and success


def test_frozen_lake_a_hole_costs_its_move_and_ends_the_episode():
    [(reward, terms, terminated, success)] = play("VLM/FrozenLake-v0", OPEN_LAKE, "Down, Down, Down")
    assert terms == {"step": pytest.approx(-0.3), "format": 0.5}
    assert reward == pytest.approx(3 * -0.1 + 0.5)
    assert terminated and not success


def test_sokoban_the_solving_move_pays_box_and_success_and_still_costs_a_step():
    [(reward, terms, terminated, success)] = play("VLM/Sokoban-v0", ONE_BOX, "Right")
    assert terms == {"step": -0.1, "boxes": 1.0, "success": 10.0, "format": 0.5}
    assert reward == pytest.approx(-0.1 + 1.0 + 10.0 + 0.5)
    assert terminated and success


def test_sokoban_a_box_pushed_off_its_target_gives_back_what_it_paid():
    (on, on_terms, *_), (off, off_terms, *_) = play("VLM/Sokoban-v0", TWO_BOXES, "Right", "Right", num_boxes=2)
    assert (on_terms["boxes"], off_terms["boxes"]) == (1.0, -1.0)
    assert (on, off) == (pytest.approx(-0.1 + 1.0 + 0.5), pytest.approx(-0.1 - 1.0 + 0.5))


@pytest.mark.parametrize(("env_id", "level"), [("VLM/FrozenLake-v0", OPEN_LAKE), ("VLM/Sokoban-v0", ONE_BOX)])
def test_a_turn_in_which_nothing_can_be_carried_out_costs_one_step_and_no_format_is_paid(env_id, level):
    [(reward, terms, terminated, _)] = play(env_id, level, "jump")
    assert (reward, terms, terminated) == (-0.1, {"step": -0.1}, False)


@pytest.mark.parametrize(("env_id", "level"), [("VLM/FrozenLake-v0", OPEN_LAKE), ("VLM/Sokoban-v0", ONE_BOX)])
def test_moves_before_an_invalid_one_are_paid_and_the_format_is_not(env_id, level):
    [(reward, terms, *_)] = play(env_id, level, "Down, jump")
    assert (reward, terms) == (-0.1, {"step": -0.1})
