"""Question-answering worlds: one question about pictures or a document, tools to look closer, one answer.

    source ── draws ──> sample ── strategy: how to look, how to answer ──> transcript ── key ──> reward

ZoomQA, DocQA and RewardJudging share everything here and differ in where their samples come from and in which tools
they hand out.
"""
