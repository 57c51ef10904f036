"""Question-answering worlds: one question about images or a document, tools to look closer, and one answer.

    source ── draws ──> sample ── strategy: how to look, how to answer ──> transcript ── key ──> reward

ZoomQA, DocQA, VideoQA, and RewardJudging share everything here; they differ in their sample sources and their
tools.
"""
