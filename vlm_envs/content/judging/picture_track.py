"""The track `fine_grained`: paragraphs about small things of a large picture, one of whose claims may be wrong.

Source: ARM-Thinker, section 4.2: questions are rewritten into descriptive ones, and responses describe the region while
mentioning the right fact or a wrong one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from vlm_envs.content.judging.cases import Case, shown_candidates
from vlm_envs.content.judging.claims import Claim, draw_dispute, topics, write_candidates
from vlm_envs.content.scenes.questions.relations import relation
from vlm_envs.content.scenes.questions.wording import clock_time, several
from vlm_envs.content.scenes.rendering import SceneImageRef
from vlm_envs.content.scenes.scene import Scene
from vlm_envs.content.scenes.things import CLOCK_PX, SIGN_PX, colors_of
from vlm_envs.errors import ConfigError
from vlm_envs.qa.sample import Evidence, Sample

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six")
SMALL_PX = 40
"""Longer side of the things that claims are about: too small to be seen in a large picture as it is shown."""

_MAX_RELATED = 8
"""Things of a scene that relations are said of; all pairs of them are."""

_NUM_ABSENT = 4
"""Kinds and colours of a scene that counts of nothing are said of."""

_OPENINGS = (
    "",
    "Seen at full size, this is what the picture shows.",
    "These details can be made out.",
    "A close look tells the following.",
)


def draw_picture_case(rng: np.random.Generator, question: Sample, *, num_candidates: int) -> Case | None:
    """Draws a case about the scene of a question, its candidates in random order.

    Args:
        rng: Where all randomness comes from.
        question: A sample of a `SceneSource`; only its picture is used.
        num_candidates: 1, 2 or 4. A single one is right in half of the cases.

    Returns:
        The case; None if the scene offers none.

    Raises:
        ConfigError: If the question is about no scene.
    """
    image = question.images[0] if question.images else None
    if not isinstance(image, SceneImageRef):
        raise ConfigError(f"The track fine_grained is made of scenes; {question.sample_id[:80]!r} is about none.")
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
        evidence=tuple(_evidence(scene, index) for index in things),
        facts=" ".join(claim.fact for claim in decisive),
    )


def picture_claims(rng: np.random.Generator, scene: Scene) -> dict[str, Sequence[Claim]]:
    """Returns claims about a scene by group.

    Args:
        rng: Draws which of many are taken.
        scene: What they are about.
    """
    kinds = Counter(thing.kind for thing in scene.things)
    names = Counter(thing.name for thing in scene.things)
    small = small_things(scene)
    single_kinds = [index for index in small if kinds[scene.things[index].kind] == 1]
    single_names = [index for index in small if names[scene.things[index].name] == 1]
    related = [single_names[int(index)] for index in rng.permutation(len(single_names))[:_MAX_RELATED]]
    return {
        "colour": [_color(scene, index) for index in single_kinds],
        "count": [*_counts(scene, small), *_absences(rng, scene)],
        **_relations(scene, related),
        "text": [_text(scene, i) for i in single_names if scene.things[i].text and scene.things[i].size_px >= SIGN_PX],
        "time": [
            _time(scene, index)
            for index in single_names
            if scene.things[index].kind == "clock" and scene.things[index].size_px >= CLOCK_PX
        ],
    }


def small_things(scene: Scene) -> tuple[int, ...]:
    """Returns the indices of the things of at most `SMALL_PX`, which claims are about; of all where none is."""
    small = tuple(index for index, thing in enumerate(scene.things) if thing.size_px <= SMALL_PX)
    return small or tuple(range(len(scene.things)))


def _color(scene: Scene, index: int) -> Claim:
    kind = scene.things[index].kind
    return Claim(
        topic=f"what colour the only {kind} is",
        wordings=(
            f"The only {kind} in the picture is {{value}}.",
            f"There is a single {kind}, and it is {{value}}.",
            f"The colour of the one {kind} there is {{value}}.",
        ),
        value=scene.things[index].color,
        subjects=frozenset((kind,)),
        flaw="wrong_colour",
        things=(index,),
    )


def _counts(scene: Scene, small: Collection[int]) -> list[Claim]:
    """Returns how many there are of each kind and colour of which a small thing is there."""
    traits = Counter((thing.kind, thing.color) for thing in scene.things)
    asked = sorted({(scene.things[index].kind, scene.things[index].color) for index in small})
    return [_count(scene, *trait, traits[trait]) for trait in asked if traits[trait] < len(_NUMBERS)]


def _absences(rng: np.random.Generator, scene: Scene) -> list[Claim]:
    """Returns counts of nothing: a kind that is there in a colour that it does not have."""
    there = {(thing.kind, thing.color) for thing in scene.things}
    kinds, colors = sorted({kind for kind, _ in there}), sorted({color for _, color in there})
    absent = [(kind, c) for kind in kinds for c in colors if (kind, c) not in there and c in colors_of(kind)]
    return [_count(scene, *absent[int(index)], 0) for index in rng.permutation(len(absent))[:_NUM_ABSENT]]


def _count(scene: Scene, kind: str, color: str, number: int) -> Claim:
    names = several(kind, color)
    return Claim(
        topic=f"how many {names} there are",
        wordings=(
            f"The number of {names} is {{value}}.",
            f"Counting the {names} gives {{value}}.",
            f"As for {names}, the count is {{value}}.",
        ),
        value=_NUMBERS[number],
        subjects=frozenset((kind,)),
        flaw="wrong_count",
        things=scene.indices(kind=kind, color=color),
    )


def _relations(scene: Scene, indices: Sequence[int]) -> dict[str, Sequence[Claim]]:
    """Returns where things are, seen from each other: sides, heights, and both at once."""
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
    return Claim(
        topic=f"where the {first.name} is, seen from the {second.name}",
        wordings=(
            f"The {first.name} is {{value}} the {second.name}.",
            f"In the picture the {first.name} can be found {{value}} the {second.name}.",
            f"One sees the {first.name} {{value}} the {second.name}.",
        ),
        value=words,
        subjects=frozenset((first.kind, second.kind)),
        flaw="wrong_relation",
        things=(one, other),
    )


def _text(scene: Scene, index: int) -> Claim:
    thing = scene.things[index]
    return Claim(
        topic=f"what the {thing.name} reads",
        wordings=(
            f"The {thing.name} reads {{value}}.",
            f"On the {thing.name} one can read {{value}}.",
            f"The letters on the {thing.name} are {{value}}.",
        ),
        value=thing.text,
        subjects=frozenset((thing.kind,)),
        flaw="wrong_text",
        things=(index,),
    )


def _time(scene: Scene, index: int) -> Claim:
    thing = scene.things[index]
    return Claim(
        topic=f"what time the {thing.name} shows",
        wordings=(
            f"The {thing.name} shows {{value}}.",
            f"The time on the {thing.name} is {{value}}.",
            f"The hands of the {thing.name} stand at {{value}}.",
        ),
        value=clock_time(thing.minutes),
        subjects=frozenset((thing.kind,)),
        flaw="wrong_time",
        things=(index,),
    )


def _flaw_kind(claim: Claim, said: str) -> str:
    """Returns the claim's kind, with counts of nothing told apart."""
    if claim.flaw != "wrong_count":
        return claim.flaw
    return {claim.value: "hallucinated_object", said: "missed_object"}.get(_NUMBERS[0], "wrong_count")


def _evidence(scene: Scene, index: int) -> Evidence:
    return Evidence(label=scene.things[index].name, box=scene.box(index), point=scene.point(index))
