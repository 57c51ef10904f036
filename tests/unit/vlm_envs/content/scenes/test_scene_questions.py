"""Every question has one true answer, its evidence is what it says it is, and no constant answer pays."""

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest

from tests.unit.slow import sized
from tests.unit.vlm_envs.content.scenes.scene_truth import true_answers
from vlm_envs.content.scenes.scene import limits
from vlm_envs.content.scenes.scene_questions import CATEGORIES, TEMPLATES
from vlm_envs.content.scenes.scene_source import SceneSource, _scene
from vlm_envs.responses.answers import normalise, score_answer

NUM_SAMPLES = sized(400, soak=1400)


@pytest.fixture(scope="module", params=["large", "small"])
def samples(request):
    """Samples of both sizes that are used, none of them rendered."""
    source = (
        SceneSource(side_px=(2000, 4000), max_objects=24)
        if request.param == "large"
        else SceneSource(side_px=224, target_px=(16, 24), max_objects=16)
    )
    rng = np.random.default_rng(11)
    return [source.draw(rng, "train") for _ in range(NUM_SAMPLES // 2)]


@pytest.mark.soak
def test_the_key_holds_the_one_true_answer(samples):
    for sample in samples:
        true = true_answers(sample)
        assert len(true) == 1, (sample.question, sample.key.options)
        assert score_answer(true.pop(), sample.key) == 1, sample.question


def test_a_wrong_answer_scores_nothing(samples):
    for sample in samples:
        answers = {"choice": "ABCD"[: len(sample.key.options)], "number": "012345"}.get(sample.key.kind, ())
        assert sum(score_answer(answer, sample.key) for answer in answers) == (1 if answers else 0)


@pytest.mark.soak
def test_evidence_is_what_the_question_is_about(samples):
    for sample in samples[:80]:
        scene = sample.images[0].scene
        for evidence in sample.evidence:
            (index,) = [
                index
                for index, thing in enumerate(scene.things)
                if evidence.label == thing.name and scene.box(index) == evidence.box
            ]
            thing = scene.things[index]
            assert evidence.label == f"{thing.color} {thing.kind}"
            assert evidence.point is not None
            column, row = int(evidence.point.x), int(evidence.point.y)
            assert evidence.box.x1 <= column < evidence.box.x2 and evidence.box.y1 <= row < evidence.box.y2
        if sample.category == "count":
            assert len(sample.evidence) == int(sample.key.answers[0])
        if sample.key.answers == ("no",) and sample.category == "existence":
            assert sample.evidence == ()


def test_questions_do_not_hold_their_answers(samples):
    for sample in samples:
        if sample.key.kind == "choice":
            right = normalise(sample.key.options["ABCD".index(sample.key.answers[0])])
        else:
            right = normalise(sample.key.answers[0])
        words = normalise(sample.question)
        assert f" {right} " not in f" {words} ", sample.question


def test_no_constant_answer_pays(samples):
    scores = defaultdict(Counter)
    for sample in samples:
        group = sample.key.kind, len(sample.key.options), sample.category
        scores[group][normalise(sample.key.answers[0])] += 1
    for (kind, num_options, category), answers in scores.items():
        total = sum(answers.values())
        chance = {"choice": 1 / max(num_options, 1), "number": 1 / 6}.get(
            kind, 1 / 11 if category == "attribute" else 0.5
        )
        spread = 3 * (chance * (1 - chance) / total) ** 0.5
        assert max(answers.values()) / total <= chance + spread, (kind, num_options, category, answers)


def test_facts_tell_the_answer(samples):
    numbers = {"no": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
    for sample in samples:
        assert sample.facts.endswith(".")
        right = sample.key.answers[0]
        if sample.key.kind == "choice":
            right = sample.key.options["ABCD".index(right)]
        if sample.category == "attribute":
            assert right in sample.facts
        elif sample.category == "count":
            assert numbers[sample.facts.split()[2]] == int(right)
        elif sample.category == "existence":
            assert sample.facts.startswith("There is no " if right == "no" else "There is one ")
        elif sample.key.kind == "choice" and right.split()[0] in ("a", "an", "the"):
            assert right.split(" ", 1)[1] in sample.facts


def test_categories_come_equally_often(samples):
    counts = Counter(sample.category for sample in samples)
    assert set(counts) == set(CATEGORIES)
    assert min(counts.values()) > 0.7 * len(samples) / len(CATEGORIES)


def test_nothing_of_questions_names_positions_of_options(samples):
    texts = [option for sample in samples for option in sample.key.options]
    assert all(option == normalise(option) or any(sign.isupper() for sign in option) for option in texts)


@pytest.mark.parametrize("template", itertools.chain(*TEMPLATES.values()), ids=lambda template: template.name)
@pytest.mark.parametrize(("side_px", "target_px"), [(224, (16, 24)), (1000, (8, 40)), (300, (12, 12))])
@pytest.mark.sample(8)
def test_every_template_finds_its_scene(template, side_px, target_px):
    if not template.can_be_asked(target_px):
        assert template.least_px > target_px[1] or template.ratio > target_px[1] / target_px[0]
        return
    source = SceneSource(side_px=(side_px, side_px), target_px=target_px, max_objects=12)
    rng = np.random.default_rng(1)
    for _ in range(5):
        draft = template.draft(rng, limits(target_px, side_px))
        scenes = (_scene(source, rng, (side_px, side_px), draft) for _ in range(24))
        assert any(scene is not None and draft.ask(rng, scene) is not None for scene in scenes)


@pytest.mark.parametrize(
    "template",
    [*TEMPLATES["existence"], *TEMPLATES["count"]],
    ids=lambda template: template.name,
)
@pytest.mark.sample(2)
def test_drafts_of_an_answer_are_as_often_as_those_of_another(template):
    """The outcome is drawn before the scene, and nothing is placed."""
    rng, answers = np.random.default_rng(3), Counter()
    bounds = limits((8, 40), 2000)
    for _ in range(2000):
        question = template.draft(rng, bounds).ask(rng, None)
        answers[question.key.answers[0]] += 1
    assert max(answers.values()) / 2000 <= template.chance + 0.035
