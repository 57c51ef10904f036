"""Every question about a clip has one true answer, its evidence is what it says it is, and no constant answer pays."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.slow import sized
from vlm_envs.content.scenes.clip_drawing import ClipLimits, crosses, draw_clip, keeps_off, try_clip
from vlm_envs.content.scenes.clip_questions import CATEGORIES, TEMPLATES
from vlm_envs.content.scenes.clip_source import ClipSource, find_clip, find_sample
from vlm_envs.content.scenes.video_sentences import describes
from vlm_envs.content.scenes.videos import clip_masks
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.responses.answers import normalise, score_answer

SMALL = {"side_px": 112, "size_px": (16, 22), "num_frames": 6, "num_things": (1, 3)}


@pytest.fixture(scope="module")
def samples():
    """Samples of both sizes that are used, none of them rendered."""
    rng = np.random.default_rng(5)
    return [
        source.draw(rng, "train") for source in (ClipSource(), ClipSource(**SMALL)) for _ in range(sized(40, soak=100))
    ]


def right_option(sample):
    return sample.key.options["ABCD".index(sample.key.answers[0])]


def happens(clip, mover):
    """Frames before and behind the crossing, worked out from where the middle is; None where it is never passed."""
    axis = 0 if clip.line_upright else 1
    beyond = [clip.middle(mover, frame)[axis] > clip.line_at for frame in range(1, clip.num_frames + 1)]
    changes = [frame for frame, (one, other) in enumerate(itertools.pairwise(beyond), start=1) if one != other]
    assert len(changes) <= 1, "straight lines cross once"
    return changes[0] if changes else None


def true_option(clip, sample):
    """What is right, read off where things are in every frame."""
    names = {f"the {mover.thing.name}": index for index, mover in enumerate(clip.movers)}
    ahead = {name: happens(clip, index) for name, index in names.items()}
    in_order = sorted((name for name, frame in ahead.items() if frame is not None), key=lambda name: ahead[name])
    words = sample.question
    if "crosses" in words.split("?")[0]:
        return in_order[-1 if " last?" in words else 0]
    if words.startswith("In which order"):
        return ", ".join(in_order)
    if words.startswith("Which thing stands"):
        (still,) = (name for name, index in names.items() if len(_places(clip, index)) == 1)
        return still
    asked = next(index for name, index in names.items() if name in words)
    places = [clip.middle(asked, frame) for frame in range(1, clip.num_frames + 1)]
    if " at t = " in words:
        frame = clip.nearest_frame(float(words.split(" at t = ")[1].split(" ")[0]))
        x, y = places[frame - 1]
        if "quarter" in words:
            return f"the {'upper' if y < clip.height / 2 else 'lower'} {'left' if x < clip.width / 2 else 'right'} one"
        if clip.line_upright:
            return f"to the {'left' if x < clip.line_at else 'right'} of it"
        return f"{'above' if y < clip.line_at else 'below'} it"
    if words.startswith("Which way"):
        (x, y), (to_x, to_y) = places[0], places[-1]
        across, down = to_x - x, to_y - y
        if abs(across) > abs(down):
            return f"to the {'left' if across < 0 else 'right'}"
        return "up" if down < 0 else "down"
    moves = [frame for frame, (one, other) in enumerate(itertools.pairwise(places), start=1) if one != other]
    if " pass " in words:
        frame = ahead[f"the {clip.movers[asked].thing.name}"]
    else:
        frame = moves[-1] if words.endswith(" stop?") else moves[0]
    return f"from {(frame - 1) / 2:.1f} to {frame / 2:.1f} seconds"


def _places(clip, index):
    return {clip.middle(index, frame) for frame in range(1, clip.num_frames + 1)}


@pytest.mark.soak
def test_the_key_holds_the_one_true_answer(samples):
    for sample in samples:
        clip = find_clip(sample.sample_id)
        if sample.key.kind == "number":
            crossing = [happens(clip, index) is not None for index in range(len(clip.movers))]
            assert int(sample.key.answers[0]) == sum(crossing), sample.question
        else:
            assert true_option(clip, sample) == right_option(sample), (sample.question, sample.key.options)
            assert len({*sample.key.options}) == len(sample.key.options)
        wrong = [a for a in "ABCD"[: len(sample.key.options)] or "01234" if a != sample.key.answers[0]]
        assert score_answer(sample.key.answers[0], sample.key) == 1
        assert not any(score_answer(answer, sample.key) for answer in wrong)


def test_evidence_is_seen_where_it_is_said_to_be(samples):
    for sample in samples[::4]:
        clip = find_clip(sample.sample_id)
        masks = clip_masks(clip)
        assert sample.evidence and len(sample.images) == len(sample.times_s) == clip.num_frames
        for evidence in sample.evidence:
            mask = masks(evidence.label, evidence.image + 1, None)
            rows, columns = np.nonzero(mask)
            assert mask[int(evidence.point.y), int(evidence.point.x)]
            assert evidence.box.x1 <= columns.min() and columns.max() < evidence.box.x2
            assert evidence.box.y1 <= rows.min() and rows.max() < evidence.box.y2


def test_every_fact_is_true_and_of_a_form_that_can_be_checked(samples):
    for sample in samples:
        clip = find_clip(sample.sample_id)
        for fact in sample.facts.rstrip(".").split(". "):
            if fact.startswith("In frame "):
                assert describes(clip, fact, int(fact.split()[2])) is True, fact
            else:
                first, last = (clip.nearest_frame(float(part)) for part in fact.split(" from ")[1].split()[:3:2])
                assert describes(clip, fact, first, last) is True, fact


def test_questions_do_not_hold_their_answers(samples):
    for sample in samples:
        right = sample.key.answers[0] if sample.key.kind == "number" else right_option(sample)
        assert f" {normalise(right)} " not in f" {normalise(sample.question)} ", sample.question


@pytest.mark.parametrize("template", [*itertools.chain(*TEMPLATES.values())], ids=lambda template: template.name)
@pytest.mark.sample(2)
def test_no_constant_answer_pays(template):
    """No letter or number is right more often than by chance, and no option whenever it is offered."""
    rng, limits = np.random.default_rng(3), ClipSource(**SMALL).limits
    answers, said, offered = Counter(), Counter(), Counter()
    for _ in range(sized(80, soak=200)):
        draft, question = template.draft(rng, limits), None
        while question is None:
            clip = try_clip(rng, draft.limits, draft.wants)
            question = None if clip is None else draft.ask(rng, clip)
        options = question.key.options
        answers[len(options), question.key.answers[0]] += 1
        if options:
            said[len(options), options["ABCD".index(question.key.answers[0])]] += 1
            offered.update((len(options), option) for option in options)
    for counts, times in ((answers, None), (said, offered)):
        for (num_options, answer), number in counts.items():
            total = sum(n for key, n in answers.items() if key[0] == num_options)
            asked = times[num_options, answer] if times else total
            chance = 1 / (num_options or 4)
            assert number / asked <= chance + 4 * (chance * (1 - chance) / asked) ** 0.5, answer


def test_categories_come_equally_often(samples):
    counts = Counter(sample.category for sample in samples)
    assert set(counts) == set(CATEGORIES)
    assert min(counts.values()) > 0.6 * len(samples) / len(CATEGORIES)


def test_an_id_recreates_its_sample(samples):
    for sample in samples[::20]:
        find_sample.cache_clear()
        found = find_sample(sample.sample_id)
        assert found == sample and found.truth_digest == sample.truth_digest
        first, again = (each.images[0].picture().pixels for each in (sample, found))
        assert np.array_equal(first, again)


@pytest.mark.parametrize(
    "sample_id",
    [
        "clip:1",
        "clip:side=9999,size=24-40,frames=8-16,things=2-4,ask=order,in=desk:1",
        "clip:side=0224,size=24-40,frames=8-16,things=2-4,ask=order,in=desk:1",
        "clip:side=224,size=24-40,frames=8-16,things=2-4,ask=weather,in=desk:1",
        "scene:1",
        7,
    ],
)
def test_ids_of_nothing_are_refused(sample_id):
    with pytest.raises(LevelError, match="clip"):
        find_sample(sample_id)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_frames": 3}, "num_frames must be a range within 4 to 64; got 3 to 3"),
        ({"num_frames": (6, 999)}, "num_frames"),
        ({"num_things": 9}, "num_things must be a range within 1 to 8"),
        ({"side_px": 56}, "side_px must be a range within 64 to 896"),
        ({"side_px": (64, 128)}, "size_px must be a range within 16 to 16"),
        ({"side_px": 112}, "size_px must be a range within 16 to 22"),
        ({"categories": ("order:sequence",), "num_things": 2}, "at least 6 frames for times and 2 things"),
        ({"categories": ("time",), "num_frames": 5}, "Questions of category time cannot be asked"),
        ({"categories": ("order:firts",)}, "Did you mean 'order:first'"),
        ({"settings": ()}, "settings must list at least one"),
    ],
)
def test_arguments_that_ask_for_nothing_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        ClipSource(**arguments)


def test_movers_do_what_is_wanted_of_them():
    limits = ClipLimits(num_movers=(3, 3))
    clip = draw_clip(np.random.default_rng(1), limits, (crosses, keeps_off))
    assert len(clip.movers) == 3
    assert crosses(clip) and not keeps_off(clip)
    assert keeps_off(replace(clip, movers=clip.movers[1:]))
    assert try_clip(np.random.default_rng(1), limits, (lambda clip: False,)) is None


def test_splits_share_no_content():
    source = ClipSource(**SMALL)
    drawn = {
        split: {source.draw(np.random.default_rng(seed), split).digest for seed in range(12)}
        for split in ("train", "val", "test")
    }
    assert not drawn["train"] & drawn["val"] and not drawn["val"] & drawn["test"] and len(drawn["test"]) == 12
