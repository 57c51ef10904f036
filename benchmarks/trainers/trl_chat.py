"""What makes a response of any text a tool call of TRL's, and a tool's answer the user's next turn.

TRL's environments act by tool calls. A model that was not taught to call tools, cut off after a number of tokens, calls
none; so its chat template and its parser are exchanged, each by the settings that the tokenizer has for it:

- the template writes a tool's answer as our encoder writes an observation: the end of the turn that was cut, then a
  turn of the user's with the picture and the text. So both sides see the same tokens.
- the parser takes every response for one call of `act` with the whole text.

The end-of-text token stands in for the tokenizer's end of turn, by which TRL would otherwise look for the end of the
answer before a tool's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoProcessor

from vlm_envs.trajectory import Observation, observation_images

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'tool' %}<|im_end|>\n<|im_start|>user\n"
    "{% else %}<|im_start|>{{ message['role'] }}\n{% endif %}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{% for call in message['tool_calls'] or [] %}{{ call['function'] }}{% endfor %}"
    "{% if message['role'] != 'assistant' %}<|im_end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOL = "act"


def processor_of(checkpoint: Path) -> Any:
    """Returns a checkpoint's processor with this template and this parser."""
    processor = AutoProcessor.from_pretrained(checkpoint, local_files_only=True)
    tokenizer = processor.tokenizer
    processor.chat_template = tokenizer.chat_template = TEMPLATE
    tokenizer.eos_token = tokenizer.pad_token

    def parse_response(ids: Sequence[int], **context: Any) -> dict[str, Any]:
        text = tokenizer.decode(ids, skip_special_tokens=True)
        call = {"type": "function", "function": {"name": TOOL, "arguments": {"response": text}}}
        return {"role": "assistant", "content": text, "tool_calls": [call]}

    tokenizer.response_template = {}
    tokenizer.parse_response = parse_response
    return processor


def blocks(observation: Observation) -> list[dict[str, Any]]:
    """Returns an observation as content of a message: pictures first, as our encoder has it."""
    from PIL import Image

    pictures = [{"type": "image", "image": Image.fromarray(each)} for each in observation_images(observation)]
    return [*pictures, {"type": "text", "text": observation["text"]}]
