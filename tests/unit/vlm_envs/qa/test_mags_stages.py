"""Mags-RL: every crop is super-resolved, so that its ablations are ablations, and each stage has its own prompt."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from PIL import Image

import vlm_envs
from agents.oracle import OracleAgent
from vlm_envs.errors import ConfigError
from vlm_envs.tools.pictures import Picture, resized


class Nearest:
    """Enlarges by repeating pixels: what a trained super-resolution network is not."""

    factor = 2

    def upscale(self, picture: Picture) -> Picture:
        return resized(picture, picture.width * 2, picture.height * 2, Image.Resampling.NEAREST)


def crops(side: int, **kwargs: Any) -> list[np.ndarray]:
    """Returns a square crop under each of the ablations."""
    controls: list[dict[str, Any]] = [
        {"upscaler": Nearest()},
        {"upscaler": "lanczos"},
        {"upscaler": "bicubic"},
        {"blank_crops": True},
    ]
    shown = []
    for control in controls:
        world = vlm_envs.make(
            "VLM/ZoomQA-v0", prompt_format="mags", side_px=800, target_px=(16, 40), **kwargs, **control
        ).unwrapped
        world.reset(seed=0)
        observation, *_ = world.step(f"<think>There <zoom>[[10, 10, {10 + side}, {10 + side}]]</zoom></think>")
        (crop,) = observation["images"]
        shown.append(crop)
    return shown


@pytest.mark.parametrize("side", [40, 223, 224, 300, 500])
def test_super_resolution_interpolation_and_blank_differ_for_every_crop(side):
    # Mags-RL, section 3.2: each crop is magnified, not only the small ones; 500 squared is just under 40 % of 800.
    shown = crops(side)
    assert [each.shape for each in shown] == [(2 * side, 2 * side, 3)] * 4
    assert not any(np.array_equal(one, other) for one, other in combinations(shown, 2))


def test_so_do_crops_larger_than_what_is_shown():
    # The picture of 800 is shown at 200: a region of 100 as shown is 400 wide, beyond the budget of 200 x 200.
    shown = crops(100, max_pixels=200 * 200)
    assert [each.shape for each in shown] == [(200, 200, 3)] * 4
    assert not any(np.array_equal(one, other) for one, other in combinations(shown, 2))


def prompt(stage: int | None) -> str:
    kwargs = {} if stage is None else {"mags_stage": stage}
    world = vlm_envs.make("VLM/ZoomQA-v0", prompt_format="mags", side_px=400, target_px=(16, 40), **kwargs)
    observation, _ = world.reset(seed=0)
    return str(observation["text"])


def test_each_stage_has_its_own_prompt_and_the_second_is_for_evaluation():
    # Mags-RL, appendix A.1: stage 1 zooms where something is unclear, into one box; stage 2 always, into every target.
    first, second = prompt(1), prompt(2)
    assert first != second == prompt(None)
    assert "<zoom>[[x1, y1, x2, y2]]</zoom>" in first and "too small or unclear" in first
    assert "<zoom>[[x1, y1, x2, y2], [x3, y3, x4, y4], ...]</zoom>" in second and "count" in second
    for tag in ("<think>", "<zoom>", "<rethink>", "<answer>", "40 %"):
        assert tag in first and tag in second


def test_the_oracle_is_right_in_both_stages():
    for stage in (1, 2):
        world: Any = vlm_envs.make(
            "VLM/ZoomQA-v0", prompt_format="mags", mags_stage=stage, side_px=400, target_px=(16, 40)
        ).unwrapped
        world.reset(seed=1)
        world.step(OracleAgent().write(world))
        *_, info = world.step(OracleAgent().write(world))
        assert info["success"]


@pytest.mark.parametrize(
    ("prompt_format", "stage", "message"),
    [("arm", 1, "mags_stage=1 needs prompt_format='mags'"), ("mags", 3, "mags_stage")],
)
def test_a_stage_that_does_nothing_or_is_none_is_refused(prompt_format, stage, message):
    with pytest.raises(ConfigError, match=message):
        vlm_envs.make("VLM/ZoomQA-v0", prompt_format=prompt_format, mags_stage=stage)


def enlarged(**kwargs: Any) -> np.ndarray:
    """Returns a crop of 40 pixels a side, enlarged."""
    kwargs = {"prompt_format": "mags", "side_px": 400, "target_px": (16, 40), **kwargs}
    world: Any = vlm_envs.make("VLM/ZoomQA-v0", **kwargs).unwrapped
    world.reset(seed=0)
    observation, *_ = world.step("<think>There <zoom>[[10, 10, 50, 50]]</zoom></think>")
    (crop,) = observation["images"]
    return np.asarray(crop)


def nearest(factor: int = 2) -> Nearest:
    """Returns an upscaler of a factor, as a world's argument names one."""
    made = Nearest()
    made.factor = factor
    return made


def test_an_upscaler_is_given_its_settings():
    assert enlarged(upscaler="bicubic", upscaler_kwargs={"factor": 4}).shape == (160, 160, 3)
    assert enlarged(upscaler=f"{__name__}:nearest", upscaler_kwargs={"factor": 2}).shape == (80, 80, 3)
    assert np.array_equal(enlarged(upscaler="lanczos", upscaler_kwargs={}), enlarged())


@pytest.mark.parametrize(
    ("upscaler", "settings", "said"),
    [
        ("bicubic", {"scale": 4}, r"upscaler_kwargs=.*scale.*signature is \(factor"),
        (f"{__name__}:nearest", {"weights": "x"}, r"upscaler_kwargs=.*weights.*signature is \(factor"),
        ("bicubic", {"factor": 0}, "factor must be"),
        (Nearest(), {"factor": 4}, "would have no effect"),
    ],
)
def test_settings_that_an_upscaler_does_not_take_are_refused(upscaler, settings, said):
    with pytest.raises(ConfigError, match=said):
        enlarged(upscaler=upscaler, upscaler_kwargs=settings)


def test_who_does_not_look_keeps_to_the_format_and_zooms_into_the_middle():
    source = "vlm_envs.content.dots:dotted_blocks"
    world = vlm_envs.make("VLM/ZoomQA-v0", source=source, prompt_format="mags", max_pixels=112 * 112).unwrapped
    world.reset(seed=3)
    careless, said = OracleAgent(suboptimal_rate=1.0), []
    for _ in range(2):
        said.append(careless.write(world))
        *_, info = world.step(said[-1])
        assert info["action_valid"]
    assert "<zoom>[[37, 37, 74, 74]]</zoom>" in said[0] and "<answer>" in said[1]
    assert info["success"]
