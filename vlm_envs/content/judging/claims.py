"""Claims, and paragraphs of claims of which one is disputed: the fine-grained and the document track.

A claim says one value of one subject. A disputed claim is drawn so that its words tell nothing: as many claims as
there are candidates are drawn, all of one group and with different values; one of them, at random, is made; the right
candidate gives it its own value and the others give it the values of the claims that were not made. So every value is
said as often rightly as wrongly, and all that is said wrongly is true of something else in the same picture or
document. Wording and order of sentences are drawn for each candidate on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vlm_envs.content.judging.judging_cases import Candidate, Flaw, is_length_matched
from vlm_envs.content.random_choice import pick, pick_by_group, pick_several

MAX_CONTEXT = 3
"""Most claims of a paragraph besides the disputed one."""

_MAX_WRITINGS = 20
"""Tries to write candidates of matching lengths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A value of a subject that is true.

    Attributes:
        topic: What it is about, such as `what colour the kite is`.
        wordings: Sentences that say it, with `{value}` where the value stands.
        value: The value, as it stands in the sentences.
        subjects: What else must not be spoken of beside it, since it might settle the matter.
        flaw: Kind of flaw if another value is said.
        forms: For values that are said in sentences of their own: the value with its sentences.
        truth: The fact in one sentence; by default the first wording with the value.
        is_reading: Whether the value is read off a chart, so that only values far from it are told apart.
        things: Indices of the things in a picture that show it.
        pages: Pages of a document that show it, counted from 1.
    """

    topic: str
    wordings: tuple[str, ...]
    value: str
    subjects: frozenset[str]
    flaw: str
    forms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    truth: str = ""
    is_reading: bool = False
    things: tuple[int, ...] = ()
    pages: tuple[int, ...] = ()

    def sentences(self, value: str) -> tuple[str, ...]:
        """Returns the sentences that give it a value, its own or another claim's."""
        written = dict(self.forms).get(value) or tuple(text.replace("{value}", value) for text in self.wordings)
        return tuple(text[0].upper() + text[1:] for text in written)

    @property
    def fact(self) -> str:
        """The truth about it, in one sentence."""
        return self.truth or self.sentences(self.value)[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispute:
    """A claim, and what it is wrongly given as.

    Attributes:
        claim: The claim.
        wrong: Values of other claims of its group, all different and none its own; one for each flawed candidate.
        context: Claims that every candidate makes besides.
    """

    claim: Claim
    wrong: tuple[str, ...]
    context: tuple[Claim, ...]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All that candidates speak of, the disputed claim first."""
        return (self.claim, *self.context)

    def decisive(self, num_candidates: int) -> tuple[Claim, ...]:
        """Returns the claims to verify: all of a single candidate's; the disputed one where candidates differ in it."""
        return self.claims if num_candidates == 1 else (self.claim,)


FlawKind = Callable[[Claim, str], str]
"""Names the flaw of a claim that is given another value; by default the claim itself names it."""


def draw_dispute(rng: np.random.Generator, groups: Mapping[str, Sequence[Claim]], num_values: int) -> Dispute | None:
    """Draws a disputed claim and its context.

    Args:
        rng: Where all randomness comes from.
        groups: Claims by group; those of one group can be given each other's values. Groups of one family, what stands
            before the first colon of their names, are together drawn as often as any other family.
        num_values: How many different values are needed, at least 2.

    Returns:
        The dispute; None if no group has so many values.
    """
    usable = [name for name in groups if len({claim.value for claim in groups[name]}) >= num_values]
    if not usable:
        return None
    group = groups[_of_a_family(rng, usable)]
    by_value: dict[str, list[Claim]] = {}
    for claim in group:
        by_value.setdefault(claim.value, []).append(claim)
    made, *wrong = pick_several(rng, list(by_value), num_values)
    claim = pick(rng, by_value[made])
    return Dispute(claim=claim, wrong=tuple(wrong), context=_context(rng, groups, claim))


def _context(rng: np.random.Generator, groups: Mapping[str, Sequence[Claim]], disputed: Claim) -> tuple[Claim, ...]:
    """Returns true claims that speak of other things than each other and the disputed one."""
    chosen: list[Claim] = []
    taken = set(disputed.subjects)
    for _ in range(int(rng.integers(1, MAX_CONTEXT + 1))):
        free = {name: [claim for claim in groups[name] if not claim.subjects & taken] for name in groups}
        usable = [name for name in groups if free[name]]
        if usable:
            claims = free[_of_a_family(rng, usable)]
            chosen.append(pick(rng, claims))
            taken |= chosen[-1].subjects
    return tuple(chosen)


def _of_a_family(rng: np.random.Generator, names: Sequence[str]) -> str:
    """Returns one of several groups, each family with the same chance."""
    return pick_by_group(rng, sorted(names), lambda name: name.partition(":")[0])


def write_candidates(
    rng: np.random.Generator,
    dispute: Dispute,
    *,
    opening: Sequence[str],
    kind_of: FlawKind = lambda claim, said: claim.flaw,
) -> tuple[Candidate, ...] | None:
    """Writes the candidates of a dispute, the right one first.

    Args:
        rng: Where all randomness comes from.
        dispute: What they say.
        opening: Sentences a candidate may begin with; an empty one for none.
        kind_of: Names a candidate's flaw.

    Returns:
        Paragraphs of matching lengths; None if none were found.
    """
    for _ in range(_MAX_WRITINGS):
        candidates = [Candidate(text=_paragraph(rng, dispute, dispute.claim.value, opening)[0])]
        for value in dispute.wrong:
            text, sentence = _paragraph(rng, dispute, value, opening)
            flaw = Flaw(kind=kind_of(dispute.claim, value), place=sentence, truth=dispute.claim.fact)
            candidates.append(Candidate(text=text, flaw=flaw))
        texts = [candidate.text for candidate in candidates]
        if is_length_matched(texts) and len(set(texts)) == len(texts):
            return tuple(candidates)
    return None


def _paragraph(rng: np.random.Generator, dispute: Dispute, value: str, opening: Sequence[str]) -> tuple[str, str]:
    """Returns a paragraph, and the sentence of it that is disputed."""
    pairs = [(dispute.claim, value), *((claim, claim.value) for claim in dispute.context)]
    sentences = [pick(rng, claim.sentences(said)) for claim, said in pairs]
    disputed = sentences[0]
    ordered = pick_several(rng, sentences, len(sentences))
    return " ".join(filter(None, (pick(rng, opening), *ordered))), disputed


def topics(rng: np.random.Generator, dispute: Dispute) -> list[str]:
    """Returns what a paragraph is asked to say, in random order."""
    return pick_several(rng, [claim.topic for claim in dispute.claims], len(dispute.claims))
