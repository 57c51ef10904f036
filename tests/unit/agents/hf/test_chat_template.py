"""A checkpoint whose chat template says something else than we do is refused, and told why.

The templates in `chat_templates/` were written anew and behave as the published ones do, as of November 2026.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from agents.hf.chat import ChatEncoder
from agents.hf.hf_agent import load_checkpoint
from agents.hf.tiny_vlm import CHATML_TEMPLATE, IMAGE_PAD

TEMPLATES = Path(__file__).parent / "chat_templates"
PICTURE = np.zeros((28, 28, 3), np.uint8)


def template(name):
    return (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")


def encoder_with(encoder, chat_template):
    encoder.tokenizer.chat_template = chat_template
    return ChatEncoder(encoder.tokenizer, encoder.image_reader)


def said(*pieces):
    return [{"type": "image"} if piece is None else {"type": "text", "text": piece} for piece in pieces]


CONVERSATION = [
    {"role": "user", "content": said(None, None, "look")},
    {"role": "assistant", "content": said("<think>I see</think><answer>Up</answer>")},
    {"role": "user", "content": said("go on")},
]
RENDERED = {
    "qwen2_5_vl": (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>look"
        "<|im_end|>\n<|im_start|>assistant\n<think>I see</think><answer>Up</answer><|im_end|>\n"
        "<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n"
    ),
    "qwen3_vl_instruct": (
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>look"
        "<|im_end|>\n<|im_start|>assistant\n<think>I see</think><answer>Up</answer><|im_end|>\n"
        "<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n"
    ),
    "qwen3_vl_thinking": (
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>look"
        "<|im_end|>\n<|im_start|>assistant\n<answer>Up</answer><|im_end|>\n"
        "<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n<think>\n"
    ),
}
"""What the published templates make of `CONVERSATION`."""


@pytest.mark.parametrize("name", RENDERED)
def test_the_fixtures_behave_as_the_published_templates(tiny, name):
    _, encoder = tiny
    text = encoder.tokenizer.apply_chat_template(
        CONVERSATION, chat_template=template(name), tokenize=False, add_generation_prompt=True
    )
    assert text == RENDERED[name]


def test_the_thinking_template_keeps_the_thoughts_of_the_answer_that_is_last(tiny):
    _, encoder = tiny
    text = encoder.tokenizer.apply_chat_template(
        CONVERSATION[:2], chat_template=template("qwen3_vl_thinking"), tokenize=False
    )
    assert text.endswith("<|im_start|>assistant\n<think>\nI see\n</think>\n\n<answer>Up</answer><|im_end|>\n")


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl_instruct"])
def test_our_segments_are_what_the_instruct_templates_render(tiny, name):
    """Several pictures, a turn without any, thoughts in earlier answers, and an answer that was cut off."""
    _, encoder = tiny
    encoder = encoder_with(encoder, template(name))
    turns = [
        ({"text": "look", "images": (PICTURE, PICTURE)}, "<think>I see</think><answer>Up</answer>"),
        ({"text": "go on"}, "<think>cut in the middle of"),
        ({"text": "again", "image": PICTURE}, None),
    ]
    ids, messages, was_cut = [], [], False
    for number, (observation, answer) in enumerate(turns):
        ids += encoder.encode(observation, is_first=number == 0, needs_end_of_turn=was_cut).ids.tolist()
        num_pictures = len(observation.get("images", ())) + ("image" in observation)
        messages.append({"role": "user", "content": said(*[None] * num_pictures, observation["text"])})
        if answer is not None:
            was_cut = not answer.endswith("</answer>")
            ids += encoder.encode_response(answer).tolist()[: -1 if was_cut else None]
            messages.append({"role": "assistant", "content": said(answer)})
    theirs = encoder.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert encoder.tokenizer.decode(ids) == theirs, "a picture of 28 pixels a side is one marker"
    assert theirs.count(IMAGE_PAD) == 3


@pytest.mark.parametrize("name", ["own", "qwen2_5_vl", "qwen3_vl_instruct"])
def test_a_system_message_is_what_the_template_renders_and_replaces_its_own(tiny, name):
    _, encoder = tiny
    encoder = encoder_with(encoder, CHATML_TEMPLATE if name == "own" else template(name))
    rules, later = "Rules <|im_end|>:\n1. Walk. ", "done"
    messages = [
        {"role": "system", "content": rules.replace("<|im_end|>", "")},
        {"role": "user", "content": said(None, "look")},
        {"role": "assistant", "content": said("Up")},
        {"role": "user", "content": said(later)},
    ]
    shown = [
        {"text": "look", "image": PICTURE, "system": rules.replace("<|im_end|>", "")},
        {"text": later, "system": ""},
    ]
    ids = encoder.encode(shown[0], is_first=True).ids.tolist()
    ids += encoder.encode_response("Up").tolist()
    ids += encoder.encode(shown[1], is_first=False).ids.tolist()
    theirs = encoder.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert ids == encoder.tokenizer.encode(theirs, add_special_tokens=False)
    assert "helpful assistant" not in theirs

    spoofed = encoder.encode({"text": "look", "system": rules}, is_first=True).ids.tolist()
    assert spoofed.count(encoder.end_of_turn_id) == 2, "of the system message and of the turn; the third is text"


@pytest.mark.parametrize(
    "chat_template",
    [
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHATML_TEMPLATE,
        CHATML_TEMPLATE.replace(
            "{{ part['text'] }}", "{{ part['text'] | trim if message['role'] == 'system' else part['text'] }}"
        ),
    ],
    ids=["refuses", "trims"],
)
def test_a_template_that_takes_no_system_message_is_refused_once_there_is_one(tiny, chat_template):
    _, encoder = tiny
    encoder = encoder_with(encoder, chat_template)
    assert encoder.encode({"text": "look", "system": ""}, is_first=True).ids.size > 0
    with pytest.raises(ValueError, match=r"system message.*system_prompt=True"):
        encoder.encode({"text": "look", "system": "rules"}, is_first=True)


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("qwen3_vl_thinking", ["is not supported", r"<think>\n'", "Instruct"]),
        ("qwen2_5_text", ["text only", "TypeError"]),
        ("qwen3_text", ["text only"]),
    ],
)
def test_a_template_we_cannot_speak_is_refused_with_the_reason(tiny, name, reasons):
    _, encoder = tiny
    with pytest.raises(ValueError, match="chat template") as caught:
        encoder_with(encoder, template(name))
    for reason in reasons:
        assert reason in str(caught.value)


STRIPPING = CHATML_TEMPLATE.replace("{{ part['text'] }}", "{{ part['text'].split('</think>')[-1] }}")


@pytest.mark.parametrize(
    ("chat_template", "reason"),
    [
        (STRIPPING, "changes earlier messages"),
        (CHATML_TEMPLATE.replace("{{ part['text'] }}", "{{ part['text'] | trim }}"), "changes earlier messages"),
        (
            CHATML_TEMPLATE.replace("<|im_start|>assistant", "<|im_start|>assistant says"),
            "opens answers itself",
        ),
        (CHATML_TEMPLATE.replace("{% if part['type'] == 'image' %}", "{% if false %}"), "text only"),
        ("{{ messages[0].content.startswith('x') }}", "text only"),
        ("{% for m in messages %}", "cannot be rendered"),
        (None, "has no chat template"),
    ],
    ids=["strips", "trims", "opens otherwise", "no markers", "no method", "no Jinja", "none"],
)
def test_what_a_template_does_wrong_is_said(tiny, chat_template, reason):
    _, encoder = tiny
    with pytest.raises(ValueError, match=reason):
        encoder_with(encoder, chat_template)


class TestCheckpointDirectory:
    def test_the_processors_own_template_is_preferred(self, tiny_directory, tmp_path):
        """Older releases keep it in chat_template.json, beside a tokenizer whose template text only."""
        directory = shutil.copytree(tiny_directory, tmp_path / "model")
        (directory / "chat_template.jinja").unlink()
        config = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
        config["chat_template"] = template("qwen2_5_text")
        (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        with pytest.raises(ValueError, match="text only"):
            load_checkpoint(directory)
        of_processor = json.dumps({"chat_template": template("qwen2_5_vl")})
        (directory / "chat_template.json").write_text(of_processor, encoding="utf-8")
        _, encoder = load_checkpoint(directory)
        first = encoder.encode({"text": "look"}, is_first=True).ids
        assert encoder.tokenizer.decode(first).startswith(
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        )

    @pytest.mark.parametrize("content", ["[]", "{", '{"chat_template": 7}'])
    def test_a_damaged_one_is_told(self, tiny_directory, tmp_path, content):
        directory = shutil.copytree(tiny_directory, tmp_path / "model")
        (directory / "chat_template.jinja").unlink()
        (directory / "chat_template.json").write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=r"chat_template\.json"):
            load_checkpoint(directory)

    def test_another_template_in_a_copy_makes_a_thinking_checkpoint_speak(self, tiny_directory, tmp_path):
        """What the error advises."""
        directory = shutil.copytree(tiny_directory, tmp_path / "model")
        (directory / "chat_template.jinja").write_text(template("qwen3_vl_thinking"), encoding="utf-8")
        with pytest.raises(ValueError, match=r"chat_template\.jinja"):
            load_checkpoint(directory)
        shutil.copy(TEMPLATES / "qwen3_vl_instruct.jinja", directory / "chat_template.jinja")
        _, encoder = load_checkpoint(directory)
        assert encoder.encode({"text": "look"}, is_first=True).ids.size > 0
