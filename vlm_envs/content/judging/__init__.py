"""Responses to judge: one is right, and each of the others has one planted flaw that is known.

    request (image, document, or neither) ── k candidates: 1 right, k-1 flawed ──> case ── question, key ──>
    sample

Three tracks follow ARMBench-VL (ARM-Thinker, section 4): `fine_grained` perception, multi-page `document`s,
and `instruction_following`. The paper has language models write the flawed responses. Here rules write them,
so that the right response is certain and can only be found by looking: flawed and right responses share
lengths, vocabulary, and positions. Needs the extra `tools`.
"""
