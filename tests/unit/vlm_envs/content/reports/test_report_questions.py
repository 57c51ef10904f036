"""Every answer is read again from the pages, by a reader that knows only what is printed."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest

from tests.unit.slow import quick, sized
from tests.unit.vlm_envs.content.reports.report_reader import NotThereError, answer
from vlm_envs.content.reports.composition import compose_report
from vlm_envs.content.reports.page_questions import count_key, facts_of, name_key, reading_key
from vlm_envs.content.reports.report_questions import CATEGORIES, ask
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import score_answer

SIZES = (5, 6, 8, 13, 24, 41, 60)


@pytest.mark.parametrize("num_pages", SIZES)
@pytest.mark.parametrize("category", [category for category in CATEGORIES if category != "unanswerable"])
@pytest.mark.sample(8)
def test_the_pages_say_what_the_key_says(num_pages, category):
    for seed in range(sized(2, soak=4)):
        report = compose_report(num_pages, seed)
        for number in range(sized(2, soak=4)):
            asked = ask(report, category, np.random.default_rng(number))
            said, pages = answer(report, asked.template, asked.terms)
            assert score_answer(said, asked.key) == 1.0, (asked, said)
            assert pages == set(asked.pages), asked
            assert asked.category == category


@pytest.mark.parametrize("num_pages", SIZES)
@pytest.mark.sample(2)
def test_the_pages_do_not_say_what_is_unanswerable(num_pages):
    for seed in range(4):
        report = compose_report(num_pages, seed)
        for number in range(8):
            asked = ask(report, "unanswerable", np.random.default_rng(number))
            with pytest.raises(NotThereError):
                answer(report, asked.template, asked.terms)
            assert asked.pages == ()
            assert score_answer("not answerable", asked.key) == 1.0


def test_every_fact_of_every_page_is_read_again():
    report = compose_report(60, 7)
    templates = collections.Counter()
    for number, page in enumerate(report.pages, start=1):
        for fact in facts_of(page.subject, report.organisation):
            said, pages = answer(report, fact.template, fact.terms)
            assert score_answer(said, fact.key) == 1.0, (fact, said)
            assert pages == {number}
            templates[fact.template] += 1
    assert len(templates) >= 28
    assert templates["count"] >= 300


@pytest.mark.soak
def test_questions_hold_their_terms_and_no_answer():
    for seed in range(30):
        report = compose_report(5 + seed, seed)
        for category in CATEGORIES:
            asked = ask(report, category, np.random.default_rng(seed))
            assert all(term in asked.question for term in asked.terms), asked
            if category not in ("comparison", "unanswerable"):
                assert asked.key.answers[0] not in asked.question.split(), asked


@pytest.mark.soak
def test_comparisons_name_the_right_one_anywhere():
    """The position of the right one among those named gives nothing away."""
    places = collections.Counter()
    for seed in range(300):
        report = compose_report(20, seed % 25)
        asked = ask(report, "comparison", np.random.default_rng(seed))
        named = asked.question.rsplit(": ", 1)[1].rstrip("?").replace(" or ", ", ").split(", ")
        if len(named) == 2:
            places[named.index(asked.key.answers[0])] += 1
    assert 0.38 < places[0] / places.total() < 0.62, places


@pytest.mark.soak
def test_refusals_are_asked_for_like_answers():
    """The kind of key decides what a prompt says of the answer, so it must be that of the answerable twin."""
    report = compose_report(40, 3)
    kinds = {}
    for category in ("table_lookup", "chart_reading", "text_fact"):
        for number in range(60):
            asked = ask(report, category, np.random.default_rng(number))
            kinds[asked.template] = asked.key.kind
    for number in range(100):
        asked = ask(report, "unanswerable", np.random.default_rng(number))
        assert kinds.get(asked.template, asked.key.kind) == asked.key.kind


def test_a_number_word_and_units_are_accepted_and_near_misses_are_not():
    report = compose_report(12, 0)
    asked = next(
        asked
        for number in range(200)
        if (asked := ask(report, "text_fact", np.random.default_rng(number))).template == "outlets"
    )
    value = int(asked.key.answers[0])
    assert score_answer(f"{value} {report.organisation.trade.outlets}", asked.key) == 1.0
    assert score_answer(f"**{value}**", asked.key) == 1.0
    assert score_answer(str(value + 1), asked.key) == 0.0


def test_counts_may_be_written_in_words_and_readings_may_be_off_by_five_percent():
    assert score_answer("three hundred and forty", count_key(340)) == 1.0
    assert score_answer("three hundred and forty-one", count_key(340)) == 0.0
    assert [score_answer(said, reading_key(40)) for said in ("38", "42", "forty", "43", "37")] == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("seed", quick(range(3), 0))
@pytest.mark.soak
def test_no_name_or_phrase_of_a_report_passes_for_another(seed):
    report = compose_report(60, seed)
    facts = [fact for page in report.pages for fact in facts_of(page.subject, report.organisation)]
    keys = {fact.key.answers[0]: fact.key for fact in facts if fact.key.kind == "anls"}
    assert len(keys) > 60
    wrong = [pair for pair in itertools.permutations(keys, 2) if score_answer(pair[0], keys[pair[1]]) > 0]
    assert wrong == []
    assert all(score_answer(f"**{name.upper()}.**", key) > 0.9 for name, key in keys.items())


def test_a_similar_name_is_another_name():
    assert score_answer("Hanno Garrick", name_key("Kasimir Garrick")) == 0.0


def test_unknown_categories_are_refused():
    with pytest.raises(ConfigError, match="chart_reading"):
        ask(compose_report(5, 0), "chart_readings", np.random.default_rng(0))
