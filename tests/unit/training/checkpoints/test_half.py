"""Starts at half their size."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.hf.hf_agent import load_checkpoint
from training.checkpoints.half import main, store_in_half

SHIPPED = Path(__file__).parents[4] / "training" / "recipes" / "checkpoints" / "frozenlake_tiny"


def test_a_checkpoint_of_half_the_size_is_the_same_but_for_rounding(tiny_directory, tmp_path):
    store_in_half(tiny_directory, tmp_path / "half")
    sizes = [(directory / "model.safetensors").stat().st_size for directory in (tiny_directory, tmp_path / "half")]
    assert sizes[1] < 0.52 * sizes[0]
    (was, _), (model, encoder) = load_checkpoint(tiny_directory), load_checkpoint(tmp_path / "half")
    assert model.dtype == torch.float32 and len(encoder.tokenizer) == model.config.text_config.vocab_size
    for (name, before), after in zip(was.state_dict().items(), model.state_dict().values(), strict=True):
        assert torch.allclose(before, after, rtol=1e-3, atol=1e-6), name


def test_what_float16_cannot_hold_is_refused_and_nothing_is_written(tmp_path):
    large = tmp_path / "large"
    shutil.copytree(SHIPPED, large)
    weights = load_file(large / "model.safetensors")
    name = next(iter(weights))
    save_file(weights | {name: weights[name] + 1e6}, large / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=name):
        store_in_half(large, tmp_path / "half")
    assert not (tmp_path / "half").exists()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        store_in_half(tmp_path, tmp_path / "half")


@pytest.mark.parametrize(
    ("words", "told"), [([], "FROM TO; got none"), (["a", "b", "c"], "got a b c"), (["a", "b"], "in a")]
)
def test_a_mistake_on_the_command_line_is_one_line(words, told, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
