"""Slow proof, run by `make soak`: nothing but looking tells which of many responses is right."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from vlm_envs.content.judging.judging_cases import TRACKS, Case
from vlm_envs.content.judging.judging_source import JudgingSource

NUM_CASES = 2_000
NUM_TRAINED = 1_000
THREE_STANDARD_ERRORS = 3 * 0.5 / NUM_TRAINED**0.5


def cases(track: str, num_candidates: int) -> list[Case]:
    source, rng = JudgingSource(tracks=(track,), num_candidates=num_candidates), np.random.default_rng(0)
    return [source.draw_case(rng, "train")[1] for _ in range(NUM_CASES)]


def word_counts(
    texts: list[str], *, pairs: bool, known: dict[str, int] | None = None
) -> tuple[np.ndarray, dict[str, int]]:
    """Returns float32[text][word] and the column of each word, or of each word and pair of neighbours."""
    words = [re.findall(r"[a-z0-9:.,%-]+", text.lower()) for text in texts]
    if pairs:
        words = [[*each, *map(" ".join, itertools.pairwise(each))] for each in words]
    columns = known or {word: column for column, word in enumerate(sorted({word for each in words for word in each}))}
    counts = np.zeros((len(texts), len(columns)), np.float32)
    for row, each in enumerate(words):
        for word in each:
            if word in columns:
                counts[row, columns[word]] += 1
    return counts, columns


def naive_bayes_accuracy(texts: list[str], labels: np.ndarray, *, pairs: bool) -> float:
    """Returns how often naive Bayes, trained on the first responses, is right about the others."""
    train, columns = word_counts(texts[:NUM_TRAINED], pairs=pairs)
    test, _ = word_counts(texts[NUM_TRAINED:], pairs=pairs, known=columns)
    right = labels[:NUM_TRAINED]
    weights = [np.log(train[mask].sum(0) + 1) - np.log((train[mask].sum(0) + 1).sum()) for mask in (right, ~right)]
    said = test @ (weights[0] - weights[1]) > 0
    return float(np.mean(said == labels[NUM_TRAINED:]))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("track", "bound"),
    [
        ("fine_grained", THREE_STANDARD_ERRORS),
        ("document", THREE_STANDARD_ERRORS),
        ("instruction_following", 0.08),  # A word that is forbidden is seen in flawed texts alone.
    ],
)
def test_words_do_not_tell(track, bound):
    drawn = cases(track, 1)
    texts = [case.candidates[0].text for case in drawn]
    labels = np.array([case.right is not None for case in drawn])
    assert abs(float(labels.mean()) - 0.5) < THREE_STANDARD_ERRORS
    for pairs in (False, True):
        accuracy = naive_bayes_accuracy(texts, labels, pairs=pairs)
        print(f"{track}, pairs of words {pairs}: {accuracy:.3f}")
        assert abs(accuracy - 0.5) < bound


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("track", TRACKS)
def test_lengths_and_places_do_not_tell(track):
    drawn = cases(track, 2)
    lengths = np.array([[len(candidate.text) for candidate in case.candidates] for case in drawn])
    assert (100 * lengths.max(1) < 110 * lengths.min(1)).all()
    rights = np.array([case.right for case in drawn])
    rows = np.arange(NUM_CASES)
    differences = lengths[rows, rights] - lengths[rows, 1 - rights]
    longer = float(np.mean(differences[differences != 0] > 0))
    print(
        f"{track}: the right one is longer in {longer:.3f}, by {differences.mean():.2f} characters; first in "
        f"{np.mean(rights == 0):.3f}"
    )
    assert abs(longer - 0.5) < 0.04
    assert abs(float(np.mean(rights == 0)) - 0.5) < 0.034
    assert abs(float(differences.mean())) < 0.01 * lengths.mean()
