"""The page on question answering names every track, dataset, and flaw of reward judging."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from vlm_envs.content.judging.judging_cases import TRACKS
from vlm_envs.content.judging.judging_datasets import DATASETS

CHECKOUT = Path(__file__).parents[5]
TEXT = (CHECKOUT / "docs" / "question-answering.md").read_text(encoding="utf-8")


def test_it_names_every_track_and_data_set():
    assert [name for name in (*TRACKS, *DATASETS) if f"`{name}`" not in TEXT] == []


def test_it_names_every_kind_of_flaw_that_the_code_can_plant():
    sources = [
        (CHECKOUT / "vlm_envs" / "content" / "judging" / f"{track}_track.py").read_text()
        for track in ("picture", "document")
    ]
    kinds = set(re.findall(r'"((?:wrong|missed|hallucinated|answerable|unanswerable)_[a-z]+)"', "".join(sources)))
    assert len(kinds) == 15
    assert [kind for kind in kinds if f"`{kind}`" not in TEXT] == []
