"""What the tiny VLM is asked about reports is told by the picture of a page, and by nothing else."""

from __future__ import annotations

import json
from contextlib import closing

import numpy as np
import pytest

import vlm_envs
from agents.hf.hf_agent import load_encoder
from agents.hf.tiny_vlm import save_tiny
from agents.oracle import OracleAgent
from training.recipes.tiny import docqa_tiny

for package in ("reportlab", "matplotlib", "pypdfium2", "bm25s", "pydantic"):
    pytest.importorskip(package, reason=f"needs {package}: pip install '.[tools]'")

(WORLD,) = docqa_tiny().worlds


def episode(level: str, first_label: int) -> tuple[list[str], list[np.ndarray], str, list[str]]:
    """Returns an expert's texts and pictures up to its answer, the answer, and what it said before."""
    texts, pictures, said = [], [], []
    with closing(vlm_envs.make(WORLD.env_id, **{**WORLD.kwargs, "first_label": first_label})) as made:
        shown, _ = made.reset(options={"level": level})
        for _ in range(made.unwrapped.max_turns - 1):
            texts.append(shown["text"])
            pictures.append(shown["images"])
            said.append(OracleAgent().write(made.unwrapped))
            shown, *_ = made.step(said[-1])
        texts.append(shown["text"])
        pictures.append(shown["images"])
        return texts, pictures, made.unwrapped.state.sample.key.answers[0], said


@pytest.mark.parametrize("seed", range(2))
def test_the_number_is_in_the_pictures_of_the_page_and_nowhere_else(seed: int) -> None:
    """Of reports that differ in their numbers alone, all texts are the same, and so is what an expert asks for."""
    level = f"report:6:page_label:{seed}"
    plays = [episode(level, first) for first in range(1, 7)]
    assert len({int(answer) for _, _, answer, _ in plays}) == 6
    assert all(play[0] == plays[0][0] and play[3] == plays[0][3] for play in plays)
    for _, (opening, found, opened), _, _ in plays:
        assert opening == () and found[0].shape == (112, 80, 3)
        assert (found[0] == opened[0]).all(), "a search shows the page that it finds"
    pages = [pictures[1][0] for _, pictures, _, _ in plays]
    assert len({page.tobytes() for page in pages}) == 6
    assert (pages[0] != pages[1]).any(axis=2)[:, :50].mean() < 0.01, "what differs stands at the right of the title"


def test_searches_find_the_page_and_its_place_is_right_about_the_number_in_one_of_six() -> None:
    """Position minus 2 was the number before; a rival may learn any other rule of it, too."""
    found, numbers = [], []
    with closing(vlm_envs.make(WORLD.env_id, **WORLD.kwargs)) as made:
        for seed in range(150):
            made.reset(seed=seed)
            sample = made.unwrapped.state.sample
            query = json.loads(OracleAgent().write(made.unwrapped).split("<tool_call>")[1].split("</tool_call>")[0])
            (place,) = sample.evidence_pages
            context = made.unwrapped.dynamics.context
            found.append(context.retrieval.retriever.search(sample.document, query["arguments"]["query"])[0] == place)
            numbers.append((place, int(sample.key.answers[0])))
    assert np.mean(found) > 0.95
    assert 0.08 < np.mean([place - 2 == number for place, number in numbers]) < 0.25
    assert {number - place + 2 for place, number in numbers} == set(range(6))


@pytest.mark.soak
def test_a_page_is_twelve_visual_tokens_and_responses_fit(tmp_path) -> None:
    config = docqa_tiny()
    save_tiny(tmp_path, env_ids=(WORLD.env_id,), settings={WORLD.env_id: [WORLD.kwargs]})
    encoder = load_encoder(tmp_path)
    with closing(vlm_envs.make(WORLD.env_id, **WORLD.kwargs)) as made:
        shown, _ = made.reset(seed=0)
        assert not encoder.encode(shown, is_first=True).images
        said = OracleAgent().write(made.unwrapped)
        assert len(encoder.encode_response(said)) <= config.sampling.max_new_tokens
        shown, *_ = made.step(said)
        prompt = encoder.encode(shown, is_first=False)
        assert (prompt.ids == encoder.image_token_id).sum() == 12
