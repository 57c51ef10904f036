"""Super-resolution is trained by one command, goes on where it was stopped, and is what ZoomQA enlarges crops with."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from agents.perception.super_resolution import SHIPPED, SMFANet, SMFANetConfig, load_smfanet, smfanet  # noqa: E402
from training.__main__ import main  # noqa: E402
from training.upscaler import upscaler_loop  # noqa: E402
from training.upscaler.upscaler_config import UpscalerConfig  # noqa: E402
from training.upscaler.upscaler_loop import (  # noqa: E402  # noqa: E402
    begin_as_interpolation,
    picture_pair,
    psnrs,
    scene_pairs,
    step_patches,
    train_upscaler,
)
from vlm_envs.errors import ConfigError  # noqa: E402
from vlm_envs.records.run_data import RunExistsError  # noqa: E402
from vlm_envs.tools.pictures import Picture  # noqa: E402
from vlm_envs.tools.zoom import BicubicUpscaler, LanczosUpscaler  # noqa: E402


def config(tmp_path, **changes):
    small = {"size": "small", "factor": 2, "num_steps": 4, "batch_size": 2, "patch_px": 8, "num_scenes": 2}
    measured = {"num_eval_scenes": 2, "side_px": (96, 120), "target_px": (12, 16), "eval_every": 2}
    return UpscalerConfig(**{**small, **measured, "checkpoint_every": 2, "output": str(tmp_path), **changes})


def weights(path):
    return {name: tensor.clone() for name, tensor in load_smfanet(path).state_dict().items()}


@pytest.mark.soak
def test_it_learns_and_says_what_it_is_worth_on_scenes_held_out(tmp_path, capsys):
    path = train_upscaler(config(tmp_path, num_steps=40, batch_size=4, eval_every=20, checkpoint_every=40))
    lines = [json.loads(line) for line in (tmp_path / "upscaler" / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [*range(40)]
    first, last = (np.mean([line["loss"] for line in part]) for part in (lines[:10], lines[-10:]))
    assert last < first
    assert load_smfanet(path).config == SMFANetConfig(num_channels=16, num_blocks=4, factor=2)
    told = capsys.readouterr().out
    assert [line.split()[:2] for line in told.splitlines()[-3:]] == [
        [n, "x2"] for n in ("lanczos", "bicubic", "smfanet")
    ]
    assert (tmp_path / "upscaler" / upscaler_loop.TABLE).read_text().splitlines() == told.splitlines()[-4:]


def test_it_begins_as_bilinear_interpolation():
    network = SMFANet(SMFANetConfig(num_channels=16, num_blocks=2, factor=3))
    begin_as_interpolation(network)
    pictures = torch.rand(2, 3, 9, 11)
    expected = torch.nn.functional.interpolate(pictures, scale_factor=3, mode="bilinear", align_corners=False)
    inner = (..., slice(3, -3), slice(3, -3))  # at the edges zeros are read in place of neighbours
    torch.testing.assert_close(network(pictures)[inner], expected[inner])


class _Killed(Exception):
    """Stands for a kill between two steps."""


def test_killed_and_resumed_it_comes_to_the_same(tmp_path, monkeypatch):
    whole = weights(train_upscaler(config(tmp_path, name="whole")))

    def dies(pairs, of, step):
        if step == 3:
            raise _Killed
        return step_patches(pairs, of, step)

    monkeypatch.setattr(upscaler_loop, "step_patches", dies)
    with pytest.raises(_Killed):
        train_upscaler(config(tmp_path, name="killed"))
    monkeypatch.undo()
    with pytest.raises(RunExistsError, match="--resume"):
        train_upscaler(config(tmp_path, name="killed"))
    with pytest.raises(ConfigError, match=r"learning-rate: the run has 0.001, requested is 0.01"):
        train_upscaler(config(tmp_path, name="killed", learning_rate=0.01), resume=True)
    again = weights(train_upscaler(config(tmp_path, name="killed"), resume=True))
    assert all(torch.equal(again[name], whole[name]) for name in whole)
    assert len((tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()) == 4
    with pytest.raises(ConfigError, match="has done 4 steps"):
        train_upscaler(config(tmp_path, name="killed", num_steps=3), resume=True)


@pytest.mark.soak
def test_ctrl_c_saves_and_the_run_goes_on_from_there(tmp_path, monkeypatch):
    def interrupts(pairs, of, step):
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return step_patches(pairs, of, step)

    monkeypatch.setattr(upscaler_loop, "step_patches", interrupts)
    with pytest.raises(KeyboardInterrupt, match=r"after 2 of 4 steps; saved\. Resume with --resume"):
        train_upscaler(config(tmp_path, checkpoint_every=4))
    monkeypatch.undo()
    again = weights(train_upscaler(config(tmp_path, checkpoint_every=4), resume=True))
    whole = weights(train_upscaler(config(tmp_path, name="whole")))
    assert all(torch.equal(again[name], whole[name]) for name in whole)


def test_splits_share_no_scene_and_patches_are_the_same_places(tmp_path):
    of = config(tmp_path)
    train, test = (scene_pairs(of, split, 4) for split in ("train", "test"))
    assert not {pair.large.digest for pair in train} & {pair.large.digest for pair in test}
    patches = step_patches(train, of, 0)
    assert patches.small_BHWC.shape == (2, 8, 8, 3) and patches.large_BHWC.shape == (2, 16, 16, 3)
    means = patches.large_BHWC.reshape(2, 8, 2, 8, 2, 3).mean((2, 4))
    assert np.abs(means - patches.small_BHWC).mean() < 12, "the large patch is not what the small one shows"
    assert not np.array_equal(step_patches(train, of, 1).small_BHWC, patches.small_BHWC)


def test_psnr_is_that_of_the_mean_squared_error():
    truth = Picture(np.full((4, 4, 3), 100, np.uint8))
    pair = picture_pair(truth, 2)
    assert psnrs([pair], BicubicUpscaler(2))[0] > 100
    off = Picture(np.full((4, 4, 3), 110, np.uint8))
    # 10 log10(255^2 / 10^2) = 28.13
    assert psnrs([pair._replace(large=off)], BicubicUpscaler(2)) == [pytest.approx(28.1308, abs=1e-4)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--patch-px", "200"], "4 x 200"),
        (["--size", "huge"], "--size"),
        (["--factor", "1"], "--factor must be from 2 to 8"),
        (["--target-px", "8", "400"], "target_px"),
        (["--resume"], "No run in"),
        (["--nmu-steps", "3"], "--num-steps"),
    ],
)
def test_mistakes_are_told_with_what_to_do_and_leave_nothing(tmp_path, capsys, words, said):
    assert main(["upscaler", "--output", str(tmp_path), *words]) == 2
    assert said in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_the_run_of_another_command_is_not_gone_on_with(tmp_path, capsys):
    (tmp_path / "upscaler").mkdir()
    (tmp_path / "upscaler" / "config.json").write_text('{"command": "python -m training sft"}')
    assert main(["upscaler", "--output", str(tmp_path), "--resume"]) == 2
    assert "is not a run of `python -m training upscaler`" in capsys.readouterr().err


@pytest.mark.parametrize("factor", [2, 4])
def test_the_weights_that_ship_enlarge_scenes_better_than_lanczos(factor):
    of = UpscalerConfig(size="small", factor=factor, side_px=(384, 400), target_px=(8 * factor, 64))
    pairs = scene_pairs(of, "test", 4)
    gains = np.subtract(psnrs(pairs, smfanet(factor=factor)), psnrs(pairs, LanczosUpscaler(factor)))
    assert gains.min() > 0.2, "dB on each of them"
    assert SHIPPED[factor].stat().st_size < 300_000


def test_a_factor_that_no_weights_ship_for_is_told_with_what_to_do():
    with pytest.raises(ConfigError, match=r"ship for factor 2 and 4; got 3.*upscaler --factor 3"):
        smfanet(factor=3)
