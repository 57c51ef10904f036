"""Responses to be judged: one of them is right, the others have one planted flaw each, and what it is is known.

    request (picture, document or none) ── k candidates: 1 right, k-1 flawed ──> case ── question, key ──> sample

Three tracks after ARMBench-VL (ARM-Thinker, section 4): `fine_grained` perception, multi-page `document`s and
`instruction_following`. The paper has language models write the flawed responses; ours are written by rule, so that
what is right is certain, and nothing but looking tells: flawed and right responses have the same lengths, the same
words and the same places. Needs the extra `tools`.
"""
