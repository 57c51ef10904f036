"""Several judges as one."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

from judges.batches import Claim, score_together
from judges.state_text.exact import Judge, JudgeScore
from vlm_envs.errors import ConfigError, require_choice

Combination = Literal["majority", "mean"]


class Ensemble:
    """Combines the scores of its members; those that are out are left out, and if all are, so is the ensemble."""

    def __init__(self, judges: Sequence[Judge], combination: Combination = "majority") -> None:
        """Choose the members.

        Args:
            judges: at least one, of any kind.
            combination: `mean` of the scores, or `majority`: 1 if more members score above one half than below, 0 if
                fewer, and 0.5 if as many (pin: a draw is no verdict for either side).

        Raises:
            ConfigError: there is no member.
        """
        require_choice("combination", combination, ("majority", "mean"))
        if not judges:
            raise ConfigError("An ensemble needs at least one judge, got none.")
        self.members, self._combination = tuple(judges), combination

    def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore:
        """Score a text against a state; an outage only if every member is out."""
        return self.score_many([(text, state)])[0]

    def score_many(self, claims: Sequence[Claim]) -> list[JudgeScore]:
        """Score every claim, in order; members that ask models ask all of it at once, as each model allows."""
        return score_together([(self, claims)])[0]

    def combine(self, columns: Sequence[Sequence[JudgeScore]]) -> list[JudgeScore]:
        """The claims' scores, from each member's scores of all claims."""
        return [self._combined(scores) for scores in zip(*columns, strict=True)]

    def _combined(self, scores: Sequence[JudgeScore]) -> JudgeScore:
        given = [score.f1 for score in scores if score.available]
        if not given:
            return JudgeScore.outage(f"all {len(scores)} judges are out; the first: {scores[0].reason}")
        listed = ", ".join(f"{f1:.2f}" for f1 in given)
        return JudgeScore(
            f1=fmean(given) if self._combination == "mean" else _majority(given),
            num_facts_read=max(score.num_facts_read for score in scores),
            reason=f"{self._combination} of {listed} ({len(scores) - len(given)} out)",
        )


def _majority(scores: Sequence[float]) -> float:
    lead = sum((f1 > 0.5) - (f1 < 0.5) for f1 in scores)
    return 0.5 if lead == 0 else float(lead > 0)
