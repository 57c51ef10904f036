import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from safetensors.torch import save_file  # noqa: E402

import vlm_envs  # noqa: E402
from agents.perception.super_resolution import (  # noqa: E402
    SMFANet,
    SMFANetConfig,
    SMFANetUpscaler,
    load_smfanet,
    smfanet,
)
from agents.perception.weights import WeightsUnavailableError  # noqa: E402
from vlm_envs.tools.pictures import Picture  # noqa: E402
from vlm_envs.tools.zoom import LanczosUpscaler  # noqa: E402

SMALL = SMFANetConfig(num_channels=8, num_blocks=2, factor=3)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return SMFANet(SMALL).eval()


def noise(width, height):
    return Picture(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8))


def by_hand(weights, pictures):
    """The published network written out again, layer by layer, for `SMALL`."""
    conv, gelu = torch.nn.functional.conv2d, torch.nn.functional.gelu

    def layer(name, features, **kwargs):
        return conv(features, weights[f"{name}.weight"], weights[f"{name}.bias"], **kwargs)

    def unit(features):
        return features / features.norm(dim=1, keepdim=True).clamp_min(1e-12)

    height, width = pictures.shape[-2:]
    shallow = features = layer("to_feat", pictures, padding=1)
    for block in ("feats.0", "feats.1"):
        y, x = layer(f"{block}.smfa.linear_0", unit(features)).split(8, dim=1)
        pooled = torch.nn.functional.adaptive_max_pool2d(x, (height // 8, width // 8))
        pooled = layer(f"{block}.smfa.dw_conv", pooled, padding=1, groups=8)
        variance = ((x - x.mean((2, 3), keepdim=True)) ** 2).sum((2, 3), keepdim=True) / (height * width - 1)
        mixed = pooled * weights[f"{block}.smfa.alpha"] + variance * weights[f"{block}.smfa.belt"]
        gate = gelu(layer(f"{block}.smfa.linear_1", mixed))
        gate = gate.repeat_interleave(8, dim=2).repeat_interleave(8, dim=3)  # Nearest, for sides divisible by 8.
        detail = layer(f"{block}.smfa.lde.conv_0.0", y, padding=1, groups=8)
        detail = layer(f"{block}.smfa.lde.conv_1", gelu(layer(f"{block}.smfa.lde.conv_0.1", detail)))
        features = features + layer(f"{block}.smfa.linear_2", x * gate + detail)
        inner = gelu(layer(f"{block}.pcfn.conv_0", unit(features)))
        part = gelu(layer(f"{block}.pcfn.conv_1", inner[:, :4], padding=1))  # A quarter of 16 channels.
        features = features + layer(f"{block}.pcfn.conv_2", torch.cat((part, inner[:, 4:]), dim=1))
    channels = layer("to_img.0", features + shallow, padding=1)
    return (
        channels.reshape(len(pictures), 3, 3, 3, height, width)
        .permute(0, 1, 4, 2, 5, 3)
        .reshape(len(pictures), 3, height * 3, width * 3)
    )


def test_the_network_computes_what_the_paper_describes(network):
    with torch.no_grad():
        for parameter in network.parameters():  # The published start values leave the variance out.
            parameter.copy_(torch.randn_like(parameter) * 0.3)
        pictures = torch.rand(2, 3, 16, 24)
        torch.testing.assert_close(network(pictures), by_hand(network.state_dict(), pictures), rtol=1e-4, atol=1e-4)


def test_the_published_sizes():
    # By hand for 36 channels, 8 blocks, factor 4: to_feat 3*36*9+36 = 1008; to_img 36*48*9+48 = 15600. A block:
    # linear_0 36*72+72 = 2664; linear_1 and linear_2 36*36+36 = 1332 each; detail 72*9+72, 72*72+72 and 72*36+36 =
    # 720+5256+2628; dw_conv 36*9+36 = 360; alpha and belt 72; feed-forward 36*72+72, 18*18*9+18 and 72*36+36 =
    # 2664+2934+2628. Sum of a block: 2664+2664+8604+360+72+8226 = 22590; 1008+8*22590+15600 = 197328.
    assert sum(parameter.numel() for parameter in SMFANet(SMFANetConfig()).parameters()) == 197_328


def test_layers_have_the_published_names(network):
    names = set(network.state_dict())
    assert {"to_feat.weight", "feats.1.smfa.belt", "feats.0.smfa.lde.conv_0.1.bias", "to_img.0.weight"} <= names
    assert len(names) == 2 + 2 * (2 + 2 * 5 + 6 + 6 - 2) + 2


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
@pytest.mark.parametrize("wrapping", [None, "params", "params_ema", "state_dict"])
def test_weights_are_loaded_and_their_size_is_found(network, tmp_path, suffix, wrapping):
    path = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        save_file(network.state_dict(), path)
    else:
        torch.save({wrapping: network.state_dict()} if wrapping else network.state_dict(), path)
    loaded = load_smfanet(path)
    assert loaded.config == SMALL and not loaded.training
    picture = noise(11, 9)
    upscaled = SMFANetUpscaler.from_file(path).upscale(picture)
    assert (upscaled.width, upscaled.height) == (33, 27)
    assert upscaled == SMFANetUpscaler(network).upscale(picture)


class Attack:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_files_that_run_code_are_refused(tmp_path):
    torch.save({"params": Attack(tmp_path / "ran")}, tmp_path / "evil.pth")
    with pytest.raises(WeightsUnavailableError, match="state dict of tensors"):
        load_smfanet(tmp_path / "evil.pth")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda weights: weights.pop("to_feat.weight"), "not of SMFANet"),
        (lambda weights: weights.pop("feats.0.smfa.alpha"), "do not fit"),
        (lambda weights: weights.update({"extra": torch.zeros(1)}), "do not fit"),
        (lambda weights: weights.update({"to_img.0.weight": torch.zeros(5, 8, 3, 3)}), "do not fit"),
        (lambda weights: weights.update({"to_img.0.weight": torch.zeros(10_000, 1)}), "factor of SMFANet"),
        (lambda weights: weights.update({"feats.x.y": torch.zeros(1)}), "not of SMFANet"),
        (lambda weights: weights.update({"feats.10000000.y": torch.zeros(1)}), "num_blocks"),
        (lambda weights: weights.update({"to_feat.weight": torch.zeros(())}), "not of SMFANet"),
        (lambda weights: weights["feats.0.smfa.alpha"].fill_(float("nan")), "not finite"),
    ],
)
def test_other_weights_are_explained(network, tmp_path, change, said):
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    change(weights)
    save_file(weights, tmp_path / "weights.safetensors")
    with pytest.raises(WeightsUnavailableError, match=said):
        load_smfanet(tmp_path / "weights.safetensors")


def test_other_files_are_explained(tmp_path):
    with pytest.raises(WeightsUnavailableError, match="No weights"):
        load_smfanet(tmp_path / "missing.pth")
    for name, content in (("a.pth", b""), ("b.pth", b"junk" * 100), ("c.safetensors", b"junk" * 100), ("d.bin", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(WeightsUnavailableError, match=r"SMFANet|state dict"):
            load_smfanet(tmp_path / name)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(WeightsUnavailableError, match="no state dict"):
        load_smfanet(tmp_path / "list.pt")


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (7, 8), (9, 3)])
def test_pictures_of_any_size_are_enlarged(network, size):
    upscaled = SMFANetUpscaler(network).upscale(noise(*size))
    assert (upscaled.width, upscaled.height) == (size[0] * 3, size[1] * 3)


def test_large_pictures_go_to_lanczos(network):
    picture = noise(20, 20)
    assert SMFANetUpscaler(network, max_input_pixels=399).upscale(picture) == LanczosUpscaler(3).upscale(picture)
    assert SMFANetUpscaler(network, max_input_pixels=400).upscale(picture) != LanczosUpscaler(3).upscale(picture)


@pytest.mark.parametrize("change", [{"num_channels": 3}, {"num_blocks": 0}, {"growth": 9}, {"factor": 0}])
def test_sizes_are_bounded(change):
    with pytest.raises(ValueError, match="must be from"):
        SMFANetConfig(**change)


def test_a_world_enlarges_with_the_weights_it_is_told_of(network, tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file(network.state_dict(), path)

    def crop(**settings):
        world = vlm_envs.make(
            "VLM/ZoomQA-v0",
            prompt_format="mags",
            side_px=400,
            target_px=(16, 40),
            upscaler="agents.perception.super_resolution:smfanet",
            upscaler_kwargs={"weights": str(path), **settings},
        ).unwrapped
        world.reset(seed=0)
        observation, *_ = world.step("<think>There <zoom>[[10, 10, 50, 50]]</zoom></think>")
        return observation["images"][0]

    first, by_lanczos = crop(), crop(max_input_pixels=40 * 40 - 1)
    assert first.shape == by_lanczos.shape == (120, 120, 3) and (first != by_lanczos).any()
    assert (crop(max_input_pixels=40 * 40) == first).all()
    with torch.no_grad():
        network.to_img[0].bias += 0.2
    save_file(network.state_dict(), path)
    os.utime(path, ns=(1, 1))
    assert (crop() != first).any(), "weights that were written anew are read anew"


def test_weights_that_are_not_there_are_told_with_how_to_make_them(tmp_path):
    with pytest.raises(WeightsUnavailableError, match="python -m training upscaler"):
        smfanet(tmp_path / "none.safetensors")
