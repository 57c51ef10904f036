"""Checks of instruction following, and instructions whose answers they verify.

Nineteen checks (`CHECKERS`) count and compare paragraphs, sentences, words, beginnings, endings, keywords and numbers
of a text, by one of two public definitions (`PROFILES`). They need no model and no picture, never raise for any text,
and take bounded time. `draw_instruction` makes instructions with a text that satisfies them, `draw_broken` one that
fails just one of their constraints.

Needs the extra `tools` (pydantic; pysbd where sentences are counted).
"""
