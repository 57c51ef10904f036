"""The learned scorers, with the real loading code and small random weights."""

from __future__ import annotations

import json
import pickle
import sys

import numpy as np
import pytest
import torch
from transformers import ViTConfig, ViTModel

from agents.perception import similarity
from agents.perception.similarity import REQUIRED_FILES, DinoScorer, DreamSimScorer
from agents.perception.weights import WeightsUnavailableError
from vlm_envs.worlds.svg.svg_scorers import Scorer, resolve_scorer

RNG = np.random.default_rng(0)
FIRST, SECOND = (RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8) for _ in range(2))


@pytest.fixture(scope="module")
def dino_folder(tmp_path_factory):
    """A ViT of the shape of DINO ViT-S/16, but tiny and random, as `save_pretrained` writes it."""
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=224, patch_size=16
    )
    folder = tmp_path_factory.mktemp("dino")
    ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def test_dino_compares_class_tokens(dino_folder):
    scorer = DinoScorer(dino_folder)
    assert isinstance(scorer, Scorer)
    assert scorer.similarity(FIRST, FIRST) == pytest.approx(1.0, abs=1e-5)
    assert 0.0 <= scorer.similarity(FIRST, SECOND) < 1.0
    assert scorer.similarity(FIRST, SECOND) == pytest.approx(scorer.similarity(SECOND, FIRST), abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dino_computes_in_float32_whatever_its_checkpoint_is_saved_in(dino_folder, tmp_path, dtype):
    ViTModel.from_pretrained(dino_folder).to(dtype).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")
    drawings = [FIRST.copy() for _ in range(6)]
    for number, drawing in enumerate(drawings):
        drawing[: 2 * number, :8] = 0
    scores = [DinoScorer(tmp_path).similarity(FIRST, drawing) for drawing in drawings]
    assert len(set(scores)) == len(scores)


def test_dino_travels_without_its_weights(dino_folder):
    scorer = DinoScorer(dino_folder)
    scorer.similarity(FIRST, SECOND)
    assert len(pickle.dumps(scorer)) < 1_000
    assert pickle.loads(pickle.dumps(scorer)).similarity(FIRST, SECOND) == scorer.similarity(FIRST, SECOND)


def test_a_world_can_be_given_dino_by_name(dino_folder, monkeypatch):
    monkeypatch.setenv(similarity.DINO_VARIABLE, str(dino_folder))
    assert resolve_scorer("scorer", "agents.perception.similarity:dino").similarity(FIRST, FIRST) == pytest.approx(
        1.0, abs=1e-5
    )


@pytest.mark.parametrize("name", ["dino", "dreamsim"])
def test_missing_weights_are_explained(name, monkeypatch, tmp_path):
    variable = {"dino": similarity.DINO_VARIABLE, "dreamsim": similarity.DREAMSIM_VARIABLE}[name]
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(WeightsUnavailableError, match=f"set {variable}"):
        resolve_scorer("scorer", f"agents.perception.similarity:{name}")
    monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(WeightsUnavailableError, match=r"No .*config\.json|No dino_vitb16"):
        resolve_scorer("scorer", f"agents.perception.similarity:{name}")


def test_unknown_kinds_of_dreamsim_are_refused(tmp_path):
    with pytest.raises(ValueError, match="kind must be one of"):
        DreamSimScorer(tmp_path, kind="ensembel")


def test_dreamsim_without_its_package_is_explained(monkeypatch, tmp_path):
    for name in REQUIRED_FILES["clip_vitb32"]:
        (tmp_path / name).mkdir()
    monkeypatch.setitem(sys.modules, "dreamsim", None)
    with pytest.raises(WeightsUnavailableError, match="pip install dreamsim"):
        DreamSimScorer(tmp_path, kind="clip_vitb32").similarity(FIRST, SECOND)


def test_dreamsim_reads_a_checkpoint_with_its_own_package(monkeypatch, tmp_path):
    pytest.importorskip("dreamsim", reason="the package dreamsim is not installed: pip install dreamsim")
    from dreamsim.feature_extraction import load_clip_as_dino
    from dreamsim.feature_extraction.vision_transformer import VisionTransformer

    def tiny_vit(patch_size):
        return VisionTransformer(patch_size=patch_size, embed_dim=32, depth=12, num_heads=2, qkv_bias=True)

    monkeypatch.setattr(load_clip_as_dino, "vit_base", tiny_vit)
    torch.manual_seed(0)
    vit = tiny_vit(32)
    vit.pos_drop = torch.nn.LayerNorm(32)
    weights = {"state_dict": {**vit.state_dict(), "proj": torch.randn(32, 16)}}
    torch.save(weights, tmp_path / "clip_vitb32_pretrain.pth.tar")
    _save_adapter(tmp_path)
    scorer = DreamSimScorer(tmp_path, kind="clip_vitb32")
    assert scorer.similarity(FIRST, FIRST) == pytest.approx(1.0, abs=1e-5)
    assert 0.0 <= scorer.similarity(FIRST, SECOND) < 1.0


def _save_adapter(folder):
    """Writes random LoRA weights as DreamSim's checkpoints have them, made by the package itself."""
    import dreamsim.model as package
    from peft import LoraConfig, get_peft_model

    arguments = package.dreamsim_args["model_config"]["clip_vitb32"]
    model = package.PerceptualModel(**arguments, device="cpu", load_dir=str(folder), normalize_embeds=True)
    config = LoraConfig(r=2, lora_alpha=1, lora_dropout=0.0, bias="none", target_modules=["qkv"])
    target = folder / "clip_vitb32_single_lora"
    get_peft_model(model, config).save_pretrained(target)
    assert {"r", "target_modules"} <= set(json.loads((target / "adapter_config.json").read_text()))
