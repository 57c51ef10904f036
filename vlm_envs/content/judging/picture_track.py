"""The track `fine_grained`: paragraphs about small things in a large image, in which one claim may be wrong.

Source: ARM-Thinker, section 4.2: questions are rewritten into descriptive ones, and responses describe the
region while mentioning the right fact or a wrong one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from vlm_envs.content.judging.claims import Claim, draw_dispute, topics, write_candidates
from vlm_envs.content.judging.judging_cases import Case, shown_candidates
from vlm_envs.content.random_choice import pick_several
from vlm_envs.content.scenes.scene import CLOCK_PX, SIGN_PX, Scene, colors_of
from vlm_envs.content.scenes.scene_questions import clock_time, relation, several
from vlm_envs.content.scenes.scene_rendering import SceneImageRef
from vlm_envs.errors import ConfigError
from vlm_envs.qa.sample import Evidence, Sample

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six")
SMALL_PX = 40
"""Maximum longer side of the things in claims: too small to see in a large image as shown."""

_MAX_RELATED = 8
"""Maximum number of things whose pairwise relations become claims."""

_NUM_ABSENT = 4
"""Number of absent combinations of kind and color that become claims."""

_OPENINGS = (
    "",
    "Seen at full size, this is what the picture shows.",
    "These details can be made out.",
    "A close look tells the following.",
)


def draw_picture_case(rng: np.random.Generator, question: Sample, *, num_candidates: int) -> Case | None:
    """Draws a case about the scene of a question, its candidates in random order.

    Args:
        rng: The only source of randomness.
        question: A sample of a `SceneSource`; only its image is used.
        num_candidates: 1, 2 or 4. A single one is right half the time.

    Returns:
        The case; None if the scene offers none.

    Raises:
        ConfigError: If the question is not about a scene.
    """
    image = question.images[0] if question.images else None
    if not isinstance(image, SceneImageRef):
        raise ConfigError(f"The track fine_grained needs a question about a scene; got {question.sample_id[:80]!r}.")
    scene = image.scene
    dispute = draw_dispute(rng, picture_claims(rng, scene), max(2, num_candidates))
    if dispute is None:
        return None
    *first, last = topics(rng, dispute)
    asked = f"{', '.join(first)}, and {last}" if first else last
    written = write_candidates(rng, dispute, opening=_OPENINGS, kind_of=_flaw_kind)
    if written is None:
        return None
    decisive = dispute.decisive(num_candidates)
    things = dict.fromkeys(index for claim in decisive for index in claim.things)
    return Case(
        track="fine_grained",
        request=f"Look closely at the picture and write a short paragraph that says {asked}.",
        candidates=shown_candidates(rng, written, num_candidates),
        images=question.images,
        evidence=tuple(
            Evidence(label=scene.things[index].name, box=scene.box(index), point=scene.point(index)) for index in things
        ),
        facts=" ".join(claim.fact for claim in decisive),
    )


def picture_claims(rng: np.random.Generator, scene: Scene) -> dict[str, Sequence[Claim]]:
    """Returns claims about a scene, by group.

    Args:
        rng: Selects among many possible claims.
        scene: The scene.
    """
    kinds = Counter(thing.kind for thing in scene.things)
    names = Counter(thing.name for thing in scene.things)
    small = [(index, scene.things[index]) for index in small_things(scene)]
    named = [(index, thing) for index, thing in small if names[thing.name] == 1]
    related = [index for index, _ in pick_several(rng, named, _MAX_RELATED)]
    return {
        "colour": [
            _claim("wrong_colour", thing.color, (thing.kind,), (index,), thing.kind)
            for index, thing in small
            if kinds[thing.kind] == 1
        ],
        "count": [*_counts(scene, small_things(scene)), *_absences(rng, scene)],
        **_relations(scene, related),
        "text": [
            _claim("wrong_text", thing.text, (thing.kind,), (index,), thing.name)
            for index, thing in named
            if thing.text and thing.size_px >= SIGN_PX
        ],
        "time": [
            _claim("wrong_time", clock_time(thing.minutes), (thing.kind,), (index,), thing.name)
            for index, thing in named
            if thing.kind == "clock" and thing.size_px >= CLOCK_PX
        ],
    }


def small_things(scene: Scene) -> tuple[int, ...]:
    """Returns the indices of things no larger than `SMALL_PX`, or of all things if there are none."""
    small = tuple(index for index, thing in enumerate(scene.things) if thing.size_px <= SMALL_PX)
    return small or tuple(range(len(scene.things)))


_SENTENCES = {
    "wrong_colour": (
        "what colour the only {0} is",
        "The only {0} in the picture is {{value}}.",
        "There is a single {0}, and it is {{value}}.",
        "The colour of the one {0} there is {{value}}.",
    ),
    "wrong_count": (
        "how many {0} there are",
        "The number of {0} is {{value}}.",
        "Counting the {0} gives {{value}}.",
        "As for {0}, the count is {{value}}.",
    ),
    "wrong_relation": (
        "where the {0} is, seen from the {1}",
        "The {0} is {{value}} the {1}.",
        "In the picture the {0} can be found {{value}} the {1}.",
        "One sees the {0} {{value}} the {1}.",
    ),
    "wrong_text": (
        "what the {0} reads",
        "The {0} reads {{value}}.",
        "On the {0} one can read {{value}}.",
        "The letters on the {0} are {{value}}.",
    ),
    "wrong_time": (
        "what time the {0} shows",
        "The {0} shows {{value}}.",
        "The time on the {0} is {{value}}.",
        "The hands of the {0} stand at {{value}}.",
    ),
}
"""Topic and wordings of claims, by the flaw of false ones."""


def _claim(flaw: str, value: str, kinds: Collection[str], things: tuple[int, ...], *names: str) -> Claim:
    """Returns a claim about things of some kinds, whose sentences refer to them by name."""
    topic, *wordings = (text.format(*names) for text in _SENTENCES[flaw])
    subjects = frozenset(kinds)
    return Claim(topic=topic, wordings=tuple(wordings), value=value, subjects=subjects, flaw=flaw, things=things)


def _counts(scene: Scene, small: Collection[int]) -> list[Claim]:
    """Returns the counts of all combinations of kind and color that occur among the small things."""
    traits = Counter((thing.kind, thing.color) for thing in scene.things)
    asked = sorted({(scene.things[index].kind, scene.things[index].color) for index in small})
    return [_count(scene, *trait, traits[trait]) for trait in asked if traits[trait] < len(_NUMBERS)]


def _absences(rng: np.random.Generator, scene: Scene) -> list[Claim]:
    """Returns claims that count zero things: kinds in the scene, in colors they do not have there."""
    there = {(thing.kind, thing.color) for thing in scene.things}
    kinds, colors = sorted({kind for kind, _ in there}), sorted({color for _, color in there})
    absent = [(kind, c) for kind in kinds for c in colors if (kind, c) not in there and c in colors_of(kind)]
    return [_count(scene, *trait, 0) for trait in pick_several(rng, absent, _NUM_ABSENT)]


def _count(scene: Scene, kind: str, color: str, number: int) -> Claim:
    things = scene.indices(kind=kind, color=color)
    return _claim("wrong_count", _NUMBERS[number], (kind,), things, several(kind, color))


def _relations(scene: Scene, indices: Sequence[int]) -> dict[str, Sequence[Claim]]:
    """Returns claims about the relative positions of things: sideways, vertical, and both."""
    sides, heights, directions = [], [], []
    for one in indices:
        for other in indices:
            if one == other:
                continue
            across, upright = relation(scene, one, other)
            side = f"to the {across} of" if across else ""
            sides += [_relation(scene, one, other, side)] if side else []
            heights += [_relation(scene, one, other, upright)] if upright else []
            directions += [_relation(scene, one, other, f"{upright} and {side}")] if side and upright else []
    return {"relation:side": sides, "relation:height": heights, "relation:direction": directions}


def _relation(scene: Scene, one: int, other: int, words: str) -> Claim:
    first, second = scene.things[one], scene.things[other]
    return _claim("wrong_relation", words, (first.kind, second.kind), (one, other), first.name, second.name)


def _flaw_kind(claim: Claim, said: str) -> str:
    """Returns the kind of flaw, distinguishing wrong counts that involve zero."""
    if claim.flaw != "wrong_count":
        return claim.flaw
    return {claim.value: "hallucinated_object", said: "missed_object"}.get(_NUMBERS[0], "wrong_count")
