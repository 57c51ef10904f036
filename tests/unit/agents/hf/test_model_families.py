"""Every family speaks as its own template and processor do, and its cached sampling is its plain forward pass."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import Gemma3Processor, InternVLProcessor, SmolVLMProcessor
from transformers.models.smolvlm.processing_smolvlm import DEFAULT_CHAT_TEMPLATE

from agents.__main__ import main as agents_main
from agents.agent import RolloutRows
from agents.hf import model_families
from agents.hf.checkpoint import MODEL_TYPES, require_checkpoint
from agents.hf.hf_agent import HFAgent
from agents.hf.sampler import CachedSampler, EpisodeDraws
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import play
from tests.unit.families import SAVERS, TILE_PX, TOKENS_PER_TILE
from tests.unit.models import load, with_ending
from tests.unit.training.batches import run_config
from training.algorithms.grpo import GRPO
from training.batch import make_batch
from training.engines.policy import token_logprobs
from training.update.learner import Learner
from training.update.update_losses import assigned_credit
from vlm_envs.errors import ConfigError

RNG = np.random.default_rng(0)
SQUARE, WIDE, TALL = (RNG.integers(0, 256, shape, dtype=np.uint8) for shape in ((40, 40, 3), (30, 60, 3), (90, 28, 3)))


@pytest.fixture(scope="module", params=SAVERS)
def directory(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    SAVERS[request.param](directory)
    return directory


@pytest.fixture
def family(directory):
    return load(directory)


def said(num_images, text):
    return [*[{"type": "image"}] * num_images, {"type": "text", "text": text}]


def processed(encoder, image):
    """Returns what the image processor gives with the settings that the family's processor asks it for."""
    asked = {
        "internvl": {"crop_to_patches": True},
        "smolvlm": {"return_row_col_info": True},
        "gemma3": {"do_pan_and_scan": False},
    }
    return encoder.image_reader.image_processor(
        images=[image], return_tensors="np", input_data_format="channels_last", **asked[family_name(encoder)]
    )


def family_name(encoder):
    return {"<IMG_CONTEXT>": "internvl", "<image>": "smolvlm", "<image_soft_token>": "gemma3"}[
        encoder.image_reader.placeholder
    ]


def test_the_size_to_which_a_picture_is_scaled_is_that_of_its_tiles(family):
    _, encoder = family
    for image in (SQUARE, WIDE, TALL):
        (read,) = encoder.process_images([image])
        height, width = read.size_px
        num_tiles = len(read.inputs["pixel_values"])
        assert height % TILE_PX == width % TILE_PX == 0
        assert height * width // TILE_PX**2 == num_tiles - (num_tiles > 1)  # The thumbnail, or the whole.


def expansion(encoder, image):
    """Returns what the family's own processor writes for a picture; the class itself cannot be had without video."""
    names = SimpleNamespace(
        start_image_token="<img>",
        end_image_token="</img>",
        image_token=encoder.image_reader.marker,
        image_seq_length=TOKENS_PER_TILE,
        image_seq_len=TOKENS_PER_TILE,
        fake_image_token="<fake_token_around_image>",
        global_image_token="<global-img>",
        full_image_sequence=f"\n\n<start_of_image>{'<image_soft_token>' * TOKENS_PER_TILE}<end_of_image>\n\n",
    )
    own = {"internvl": InternVLProcessor, "smolvlm": SmolVLMProcessor, "gemma3": Gemma3Processor}[family_name(encoder)]
    return own.replace_image_token(names, processed(encoder, image), 0)


def rendered(encoder, messages, images):
    """Returns the template's rendering, each marker as the processor expands it."""
    text = encoder.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    first, *rest = text.split(encoder.image_reader.marker)
    return first + "".join(expansion(encoder, image) + part for image, part in zip(images, rest, strict=True))


def test_our_template_of_smolvlm_writes_what_transformers_own_does(tmp_path):
    """The one it falls back on for videos, with which the published ones agree."""
    SAVERS["smolvlm"](tmp_path)
    _, encoder = load(tmp_path)
    messages = [
        {"role": "system", "content": said(0, " Walk. ")},
        {"role": "user", "content": said(2, "look\n")},
        {"role": "assistant", "content": said(0, "Up")},
        {"role": "user", "content": said(0, " go on")},
    ]
    ours, theirs = (
        encoder.tokenizer.apply_chat_template(
            messages, chat_template=template, tokenize=False, add_generation_prompt=True
        )
        for template in (None, DEFAULT_CHAT_TEMPLATE)
    )
    assert ours == theirs


@pytest.mark.parametrize("system", ["", " Walk.\nDo not fall. "])
def test_a_conversation_is_what_template_and_processor_make_of_it(family, system):
    """Two pictures, none and one; thoughts kept; an answer that was cut; a first turn without pictures."""
    _, encoder = family
    turns = [
        ({"text": "look\n", "images": (SQUARE, WIDE)}, "<think>I see</think><answer>Up</answer>"),
        ({"text": " go on"}, "<think>cut in the"),
        ({"text": "and now?", "image": TALL}, None),
    ]
    for order in (turns, turns[1:]):
        messages = [{"role": "system", "content": said(0, system)}] if system else []
        ids, images, was_cut = [], [], False
        for number, (observation, answer) in enumerate(order):
            shown = {**observation, "system": system} if number == 0 else observation
            segment = encoder.encode(shown, is_first=number == 0, needs_end_of_turn=was_cut)
            ids += segment.ids.tolist()
            pictures = [*observation.get("images", ()), *([observation["image"]] if "image" in observation else [])]
            images += pictures
            assert (segment.ids == encoder.image_token_id).sum() == sum(image.num_tokens for image in segment.images)
            messages.append({"role": "user", "content": said(len(pictures), observation["text"])})
            if answer is not None:
                was_cut = not answer.endswith("</answer>")
                ids += encoder.encode_response(answer).tolist()[: -1 if was_cut else None]
                messages.append({"role": "assistant", "content": said(0, answer)})
        assert ids == encoder.tokenizer.encode(rendered(encoder, messages, images), add_special_tokens=False)


@pytest.mark.parametrize("order", ["text first", "picture first"])
def test_texts_and_pictures_in_any_order_are_what_the_template_makes_of_them(family, order):
    _, encoder = family
    first = [*([] if order == "picture first" else ["look at "]), SQUARE, "\nand at ", WIDE, TALL]
    turns = [(first, "<think>I see</think><answer>Up</answer>"), (["go on", SQUARE, "now"], None)]
    messages, ids, images = [], [], []
    for number, (content, answer) in enumerate(turns):
        segment = encoder.encode_content(content, is_first=number == 0)
        ids += segment.ids.tolist()
        pictures = [part for part in content if not isinstance(part, str)]
        assert [image.num_tokens for image in segment.images] == [
            image.num_tokens for image in encoder.process_images(pictures)
        ]
        images += pictures
        parts = [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in content]
        messages.append({"role": "user", "content": parts})
        if answer is not None:
            ids += encoder.encode_response(answer).tolist()
            messages.append({"role": "assistant", "content": said(0, answer)})
    assert ids == encoder.tokenizer.encode(rendered(encoder, messages, images), add_special_tokens=False)


def test_pictures_are_cut_into_tiles_and_one_tile_is_a_setting(directory, tmp_path):
    _, encoder = load(directory)
    is_cut = family_name(encoder) != "gemma3"
    assert (encoder.process_images((WIDE,))[0].num_tokens > TOKENS_PER_TILE) == is_cut
    one = shutil.copytree(directory, tmp_path / "one")
    path = one / "preprocessor_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**settings, "max_patches": 1, "do_image_splitting": False}), encoding="utf-8")
    _, encoder = load(one)
    assert [image.num_tokens for image in encoder.process_images((WIDE, TALL, SQUARE))] == [TOKENS_PER_TILE] * 3


@pytest.mark.parametrize("shape", [(1, 1000), (3, 100), (1, 1), (201, 1), (300, 500)])
def test_any_picture_can_be_shown(family, shape):
    _, encoder = family
    segment = encoder.encode({"text": "look", "image": np.zeros((*shape, 3), np.uint8)}, is_first=True)
    assert (segment.ids == encoder.image_token_id).sum() == segment.images[0].num_tokens > 0


def test_answers_are_read_without_what_the_template_puts_before_them(family):
    _, encoder = family
    for text in ("<think>a</think><answer>Up</answer>", "Up", ""):
        assert encoder.decode(encoder.encode_response(text)) == text


def plain_logits(model, encoder, ids, images):
    """Returns the logits of one row by the model's own forward pass from pixels."""
    inputs = {}
    if family_name(encoder) == "gemma3":
        inputs["token_type_ids"] = (torch.tensor([ids]) == encoder.image_token_id).int()
    if images:
        pixels = [processed(encoder, image) for image in images]
        axis = 1 if family_name(encoder) == "smolvlm" else 0
        for name in ("pixel_values", "pixel_attention_mask"):
            if name in pixels[0]:
                inputs[name] = torch.from_numpy(np.concatenate([np.asarray(each[name]) for each in pixels], axis))
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), **inputs).logits[0].float()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.sample(3)
def test_cached_greedy_sampling_is_the_plain_forward_pass(family, attention):
    """Three turns of rows of many lengths together, one of which leaves; tokens and log-probabilities."""
    family[0].set_attn_implementation(attention)
    model, encoder = with_ending(*family, bias=2.0), family[1]
    assert model.model.get_decoder().config._attn_implementation == attention
    suppressed = encoder.suppressed_ids()
    sampler = CachedSampler(model, encoder, SamplingConfig(temperature=0.0, max_new_tokens=5), EpisodeDraws(0))
    shown = {
        0: [(SQUARE, WIDE), (), (TALL,)],
        1: [(), (SQUARE,), ()],
        2: [(TALL,), (TALL,), (WIDE,)],
        3: [(WIDE,), ()],
    }
    texts = {0: "go", 1: "a long story " * 20, 2: "look around", 3: "x"}
    ids = {row: [] for row in shown}
    images = {row: [] for row in shown}
    sampler.start(RolloutRows.ungrouped(len(shown)))
    lengths = set()
    for turn in range(3):
        rows = [row for row in shown if turn < len(shown[row])]
        segments = [
            encoder.encode(
                {"text": texts[row], "images": shown[row][turn]},
                is_first=turn == 0,
                needs_end_of_turn=turn > 0 and ids[row][-1] != encoder.end_of_turn_id,
            )
            for row in rows
        ]
        for row, segment, sample in zip(rows, segments, sampler.continue_rows(rows, segments), strict=True):
            ids[row] += segment.ids.tolist()
            images[row] += shown[row][turn]
            start = len(ids[row])
            ids[row] += sample.ids
            logits = plain_logits(model, encoder, ids[row], images[row])[start - 1 : -1]
            logits[:, suppressed] = -torch.inf
            logprobs = logits.log_softmax(-1)
            assert logprobs.argmax(-1).tolist() == sample.ids
            assert np.allclose(logprobs.amax(-1), sample.logprobs, atol=1e-4)
            lengths.add(len(sample.ids))
    assert len(lengths) > 1, "some answers end by themselves, some are cut"


def test_an_update_learns_from_what_was_sampled(family):
    model, encoder = with_ending(*family, bias=3.0), family[1]
    agent = HFAgent(model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=6), seed=1)
    trajectories = play(agent, [0, 0, 1, 1], max_turns=(2, 1, 3))
    batch = make_batch(
        trajectories, [[float(number)] * len(t.turns) for number, t in enumerate(trajectories)], encoder,
        group_index=[0, 0, 1, 1],
    )  # fmt: skip
    with torch.no_grad():
        logprobs_BT, _ = token_logprobs(model, batch, temperature=1.0, suppressed_ids=encoder.suppressed_ids())
    assert float((logprobs_BT - batch.sampler_logprobs_BT).abs().max()) < 1e-4
    assert float(batch.sampler_logprobs_BT.min()) < -0.1
    config = run_config(algorithm=GRPO(), group_size=2)
    learner = Learner(model, encoder.suppressed_ids(), replace(config, sampling=agent._sampler.sampling))
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    outputs = learner.model_outputs(batch)
    metrics = learner.update(batch, outputs, assigned_credit(config.algorithm, batch, outputs), iteration=0)
    assert metrics["sampler_gap"] < 1e-4
    assert metrics["skipped_steps"] == 0
    moved = {name.split(".")[1] for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert len(moved) > 2, "tower, connector and language model"


def test_the_names_without_torch_are_those_of_the_registry():
    assert MODEL_TYPES == model_families.MODEL_TYPES


def test_a_version_that_lays_tiles_out_otherwise_is_refused(monkeypatch, tmp_path):
    SAVERS["smolvlm"](tmp_path)
    monkeypatch.setattr("agents.hf.model_families.transformers.__version__", "5.20.0")
    with pytest.raises(ConfigError, match=r"SmolVLM .*transformers 5\.21 or newer; this is 5\.20\.0"):
        load(tmp_path)


def test_a_checkpoint_plays_by_its_name(directory, capsys):
    assert agents_main(["play", f"hf:{directory}", "VLM/FrozenLake-v0", "--max-turns", "2"]) == 0
    assert "turn 1" in capsys.readouterr().out.lower()


def test_a_checkpoint_of_an_unknown_family_is_refused_with_those_that_are_known(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llava"}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"qwen2_5_vl, qwen3_vl, internvl, smolvlm or gemma3 at .*; got 'llava'"):
        require_checkpoint(tmp_path)
