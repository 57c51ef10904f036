"""Claims, and paragraphs with one disputed claim, for the fine-grained and document tracks.

A claim states one value of one subject. Disputed claims are drawn so that their wording reveals nothing: as
many claims as there are candidates are drawn from one group, all with different values, and one of them is
made at random. The right candidate states its own value; the others state the values of the claims that were
not made. Every value is therefore stated correctly as often as wrongly, and every wrong value is true of
something else in the same image or document. Wording and sentence order are drawn separately for each
candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vlm_envs.content.judging.judging_cases import Candidate, Flaw, is_length_matched
from vlm_envs.content.random_choice import pick, pick_by_group, pick_several

MAX_CONTEXT = 3
"""Maximum number of claims in a paragraph, not counting the disputed one."""

_MAX_WRITINGS = 20
"""Attempts to write candidates of matching lengths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A true value of a subject.

    Attributes:
        topic: Subject of the claim, such as `what colour the kite is`.
        wordings: Sentences that state it, with `{value}` as a placeholder.
        value: The value, as written in the sentences.
        subjects: Subjects that other claims of the paragraph must avoid, because they could settle the
            dispute.
        flaw: Kind of flaw if another value is stated.
        forms: For values with their own sentences: each value and its sentences.
        truth: The fact in one sentence; by default the first wording with the value.
        is_reading: Whether the value is read off a chart, so that only distant values can be told apart.
        things: Indices of the things in an image that show it.
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
        """Returns the sentences that state a value, its own or another claim's."""
        written = dict(self.forms).get(value) or tuple(text.replace("{value}", value) for text in self.wordings)
        return tuple(text[0].upper() + text[1:] for text in written)

    @property
    def fact(self) -> str:
        """The true statement, in one sentence."""
        return self.truth or self.sentences(self.value)[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispute:
    """A claim and its wrong values.

    Attributes:
        claim: The claim.
        wrong: Distinct values of other claims in its group, none its own; one for each flawed candidate.
        context: Additional true claims that every candidate makes.
    """

    claim: Claim
    wrong: tuple[str, ...]
    context: tuple[Claim, ...]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims of the candidates, the disputed one first."""
        return (self.claim, *self.context)

    def decisive(self, num_candidates: int) -> tuple[Claim, ...]:
        """Returns the claims to verify: all claims of a single candidate, or only the disputed one of several."""
        return self.claims if num_candidates == 1 else (self.claim,)


FlawKind = Callable[[Claim, str], str]
"""Names the flaw of a claim with a wrong value; by default the claim's own `flaw`."""


def draw_dispute(rng: np.random.Generator, groups: Mapping[str, Sequence[Claim]], num_values: int) -> Dispute | None:
    """Draws a disputed claim and its context.

    Args:
        rng: The only source of randomness.
        groups: Claims by group; claims in a group can take each other's values. The text before the first
            colon of a group's name is its family; families are equally likely.
        num_values: Number of different values needed, at least 2.

    Returns:
        The dispute; None if no group has enough values.
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
    """Returns true claims about subjects that differ from each other's and the disputed one's."""
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
    """Returns a random group; families are equally likely."""
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
        rng: The only source of randomness.
        dispute: The claims to make.
        opening: Opening sentences to choose from; an empty one for none.
        kind_of: Returns the kind of a candidate's flaw.

    Returns:
        Paragraphs of matching lengths; None if no attempt produced them.
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
    """Returns a paragraph and its disputed sentence."""
    pairs = [(dispute.claim, value), *((claim, claim.value) for claim in dispute.context)]
    sentences = [pick(rng, claim.sentences(said)) for claim, said in pairs]
    disputed = sentences[0]
    ordered = pick_several(rng, sentences, len(sentences))
    return " ".join(filter(None, (pick(rng, opening), *ordered))), disputed


def topics(rng: np.random.Generator, dispute: Dispute) -> list[str]:
    """Returns the topics that a paragraph should cover, in random order."""
    return pick_several(rng, [claim.topic for claim in dispute.claims], len(dispute.claims))
