"""Cases of the three tracks as samples: found again, split, balanced, and told by looking only."""

from __future__ import annotations

import pickle
import re
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs pydantic: pip install '.[tools]'")
pytest.importorskip("pysbd", reason="needs pysbd: pip install '.[tools]'")

from tests.unit.slow import quick, sized, three_standard_errors
from vlm_envs.content.judging.instruction_track import Requirements
from vlm_envs.content.judging.judging_cases import NUM_CANDIDATES, TRACKS, Case, track_of
from vlm_envs.content.judging.judging_source import JudgingSource
from vlm_envs.content.reports.report_source import ReportSource
from vlm_envs.content.scenes.scene_source import SceneSource
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.tools.instruction_texts import COUNTED

PARAGRAPHS = "check_whether_response_paragraph_number_in_range"

SCENES = SceneSource(side_px=(300, 500), target_px=(16, 40))
REPORTS = ReportSource(num_pages=(5, 12))
NUM_CASES = sized(50, soak=100)


def source(*tracks: str, num_candidates: int = 2, reverse_order: bool = False) -> JudgingSource:
    return JudgingSource(
        tracks=tracks or TRACKS,
        num_candidates=num_candidates,
        reverse_order=reverse_order,
        scenes=SCENES,
        reports=REPORTS,
    )


def cases(track: str, num_candidates: int, count: int) -> list[Case]:
    judging, rng = source(track, num_candidates=num_candidates), np.random.default_rng(0)
    return [judging.draw_case(rng, "train")[1] for _ in range(count)]


@pytest.fixture(scope="module", params=["fine_grained", "document"])
def pairs(request) -> list[Case]:
    return cases(request.param, 2, NUM_CASES)


@pytest.mark.parametrize("num_candidates", NUM_CANDIDATES)
@pytest.mark.parametrize("split", quick(SPLITS, "train"))
@pytest.mark.soak
def test_samples_are_found_again(split, num_candidates):
    judging, rng = source(num_candidates=num_candidates), np.random.default_rng(3)
    tracks = set()
    for _ in range(9):
        sample = judging.draw(rng, split)
        again = JudgingSource().find(sample.sample_id)  # Ids hold all that matters.
        assert again == sample
        assert len(sample.texts) == num_candidates
        tracks.add(track_of(sample.category))
    assert len(tracks) >= 2


def test_equal_generators_draw_equal_samples():
    first, second = (source().draw(np.random.default_rng(11), "train") for _ in range(2))
    assert first == second


@pytest.mark.soak
def test_the_reverse_order_shows_the_same_case():
    for seed in range(6):
        forward, backward = (
            source(num_candidates=4, reverse_order=turned).draw(np.random.default_rng(seed), "val")
            for turned in (False, True)
        )
        assert forward.question == backward.question
        assert forward.digest == backward.digest
        assert [text for _, text in forward.texts] == [text for _, text in backward.texts][::-1]
        assert int(forward.key.answers[0]) + int(backward.key.answers[0]) == 5


def test_an_id_of_the_other_order_is_found_in_the_reverse_one():
    judging, backward = (source(num_candidates=2, reverse_order=turned) for turned in (False, True))
    for seed in range(3):
        drawn = judging.draw(np.random.default_rng(seed), "train")
        turned = backward.find(drawn.sample_id)
        assert turned == backward.draw(np.random.default_rng(seed), "train")
        assert backward.find(turned.sample_id) == turned, "its own ids stay what they are"
        assert judging.find(turned.sample_id) == turned, "in the order that the id says"


def test_splits_share_no_request_about_the_same_thing():
    seen: dict[str, set[tuple[str, str]]] = {split: set() for split in SPLITS}
    judging, rng = source(), np.random.default_rng(0)
    for split in SPLITS:
        for _ in range(8):
            sample = judging.draw(rng, split)
            about = sample.images[0].digest if sample.images else ""
            about = sample.document.digest if sample.document is not None else about
            seen[split].add((about, sample.question))
    assert not seen["train"] & seen["val"] and not seen["train"] & seen["test"] and not seen["val"] & seen["test"]


@pytest.mark.soak
def test_lengths_and_places_tell_nothing(pairs):
    lengths = [[len(candidate.text) for candidate in case.candidates] for case in pairs]
    assert all(100 * max(each) < 110 * min(each) for each in lengths)
    longer = [
        each[case.right] > each[1 - case.right] for each, case in zip(lengths, pairs, strict=True) if each[0] != each[1]
    ]
    for shares in (longer, [case.right == 0 for case in pairs]):
        assert abs(np.mean(shares) - 0.5) < three_standard_errors(len(shares))


def test_a_flaw_is_one_sentence_of_the_response_and_the_truth_is_another(pairs):
    for case in pairs:
        right, flawed = case.candidates[case.right], case.candidates[1 - case.right]
        assert flawed.flaw.place in flawed.text
        assert flawed.flaw.place not in right.text
        assert flawed.flaw.truth in case.facts
        assert flawed.flaw.truth != flawed.flaw.place


def test_there_are_many_kinds_of_flaws(pairs):
    kinds = Counter(case.flaw.kind for case in pairs)
    expected = {
        "fine_grained": {"wrong_colour", "wrong_relation", "wrong_count", "hallucinated_object", "missed_object"},
        "document": {
            "wrong_figure",
            "wrong_name",
            "wrong_date",
            "wrong_page",
            "answerable_refused",
            "unanswerable_answered",
        },
    }[pairs[0].track]
    assert expected <= set(kinds)
    assert max(kinds.values()) < 0.6 * len(pairs)


@pytest.mark.soak
def test_wrong_figures_are_printed_elsewhere_in_the_report():
    figures = [case for case in cases("document", 2, sized(20, soak=40)) if case.flaw.kind == "wrong_figure"]
    assert len(figures) > 2
    for case in figures:
        pages = case.document.report.pages
        value = set(re.findall(r"[\d,]+", case.flaw.place)) - set(re.findall(r"[\d,]+", case.flaw.truth))
        printed = [page.text for page in pages]
        in_charts = [str(number) for page in pages for block in page.blocks for number in getattr(block, "values", ())]
        assert all(any(figure in text for text in printed) or figure.replace(",", "") in in_charts for figure in value)


@pytest.mark.soak
def test_pages_with_the_answer_are_named_unless_nothing_answers():
    for case in cases("document", 2, sized(15, soak=30)):
        if case.flaw.kind == "unanswerable_answered":
            assert case.evidence_pages == ()
        else:
            assert len(case.evidence_pages) == 1


@pytest.mark.soak
def test_evidence_is_the_thing_in_dispute():
    for case in cases("fine_grained", 2, sized(20, soak=40)):
        labels = {evidence.label for evidence in case.evidence}
        if case.flaw.kind == "wrong_relation":
            assert len(labels) == 2
            assert all(label in case.flaw.truth for label in labels)
        elif case.flaw.kind == "hallucinated_object":
            assert labels == set()
        else:
            assert len(labels) == 1


def test_of_four_candidates_every_claim_differs_in_the_same_place():
    for track in ("fine_grained", "document"):
        for case in cases(track, 4, sized(6, soak=15)):
            truths = {candidate.flaw.truth for candidate in case.candidates if candidate.flaw}
            assert len(truths) == 1
            assert len({candidate.flaw.kind for candidate in case.candidates if candidate.flaw}) <= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tracks": ()}, "at least one track"),
        ({"tracks": ("document", "document")}, "duplicates"),
        ({"tracks": ("documents",)}, "Did you mean 'document'"),
        ({"num_candidates": 3}, "1, 2 or 4; got 3"),
        ({"num_candidates": True}, "1, 2 or 4"),
        ({"profile": "arms"}, "Did you mean 'arm'"),
        (
            {"num_candidates": 4, "requirements": Requirements(checks=tuple(COUNTED), counterfactual=True)},
            "num_candidates=1 or 2",
        ),
    ],
)
def test_misuse_is_explained(arguments, message):
    with pytest.raises(ConfigError, match=message):
        JudgingSource(**arguments)


@pytest.mark.parametrize(
    "sample_id",
    [
        "",
        "judging",
        "judging:poetry:arm:2:forward:1:",
        "judging:instruction_following:arm:3:forward:1:",
        "judging:instruction_following:arm:2:forward:01:",
        "judging:instruction_following:arm:2:forward:9999999999999999999:",
        "judging:instruction_following:arm:2:forward:1:report:8:text_fact:1",
        "judging:document:arm:2:forward:1:",
        "judging:document:arm:2:forward:1:report:8:poetry:1",
        "judging:fine_grained:arm:2:forward:1:report:8:text_fact:1",
    ],
)
def test_unreadable_ids_are_explained(sample_id):
    with pytest.raises(LevelError):
        JudgingSource().find(sample_id)


def test_sources_are_values():
    judging = source()
    assert pickle.loads(pickle.dumps(judging)).draw(np.random.default_rng(2), "train") == judging.draw(
        np.random.default_rng(2), "train"
    )


@pytest.mark.soak
def test_of_counterfactual_pairs_the_texts_belong_to_a_split_and_the_request_to_all():
    """Were it the request, often one text of a pair could be right in a split and not the other, which would tell."""
    requirements = Requirements(checks=(PARAGRAPHS,), number=(1, 1), counterfactual=True)
    source = JudgingSource(tracks=("instruction_following",), requirements=requirements)
    drawn = {}
    for split in SPLITS:
        rng = np.random.default_rng(0)
        drawn[split] = [source.draw_case(rng, split)[1] for _ in range(sized(45, soak=60))]
    for split, cases in drawn.items():
        texts = ["\n\n".join(sorted(candidate.text for candidate in case.candidates)) for case in cases]
        assert {split_of(text.encode()) for text in texts} == {split}
    requests = {split: {case.request for case in cases} for split, cases in drawn.items()}
    assert len(requests["test"] & requests["train"]) > len(requests["test"]) / 3
    (sample_id, case) = source.draw_case(np.random.default_rng(7), "test")
    assert source.case(sample_id) == case
