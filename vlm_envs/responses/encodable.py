"""Texts that can be written and sent, whatever they came from."""

from __future__ import annotations


def encodable(text: str) -> str:
    """Returns a text with halves of surrogate pairs, which have no UTF-8 form, as question marks.

    The escapes of JSON can write such a half, and a model can sample one; no file, message or tokenizer takes it.
    """
    return text.encode("utf-8", "replace").decode("utf-8")
