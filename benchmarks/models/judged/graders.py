"""Models that grade answers, and say how much of a picture has to be magnified. Source: Mags-RL, appendix A.2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from benchmarks.models.measures.measures import GRADED, ZOOM_NEED
from judges.episode_rewards.episode_reading import final_state, key_of, own_pieces, query_id, shown_images
from judges.grading import AnswerJudge, extract_answer, grade_answer, in_words, question_with_options
from vlm_envs.responses.extraction import last_boxed, without_thoughts
from vlm_envs.trajectory import Trajectory

_AT_ONCE = 8
"""Episodes that are graded side by side; a client has a limit of its own."""


@dataclass(frozen=True, kw_only=True)
class Graders:
    """Who is asked; what is None is left out.

    Attributes:
        extract: Reads the answer out of a reply without one in its form.
        grade: Grades it in quarters.
        zoom_need: Says of a question and its pictures, from 1 to 10, how much has to be magnified; asked once each.
    """

    extract: Callable[[str, str], str | None] | None = None
    grade: AnswerJudge | None = None
    zoom_need: Callable[[str, Sequence[npt.NDArray[np.uint8]]], int | None] | None = None
    _needs: dict[str, int | None] = field(default_factory=dict, init=False, repr=False)

    def measures(
        self, episodes: Sequence[Trajectory], known: Sequence[Mapping[str, float]] = ()
    ) -> list[dict[str, float | None]]:
        """Returns what they say of each episode, in order; nothing of worlds that do not ask.

        Args:
            episodes: The episodes.
            known: What they have said of each before, which is not asked again.

        Returns:
            Measures by name; None where a grader was asked and gave no verdict.
        """
        if self.grade is None and self.zoom_need is None:
            return [{} for _ in episodes]
        before = known or [{} for _ in episodes]
        pairs = list(zip(episodes, before, strict=True))
        asked = {query_id(each): each for each, said in pairs if self._asks(each, said, ZOOM_NEED)}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            new = [name for name in asked if name not in self._needs]
            self._needs.update(zip(new, pool.map(lambda name: self._need(asked[name]), new), strict=True))
            return list(pool.map(lambda pair: self._of(*pair), pairs))

    def _asks(self, episode: Trajectory, known: Mapping[str, float], name: str) -> bool:
        grader = self.grade if name == GRADED else self.zoom_need
        return grader is not None and name not in known and "sample_id" in final_state(episode)

    def _of(self, episode: Trajectory, known: Mapping[str, float]) -> dict[str, float | None]:
        found: dict[str, float | None] = dict(known)
        if self._asks(episode, known, GRADED):
            found[GRADED] = self._grade(episode)
        if self._asks(episode, known, ZOOM_NEED):
            need = self._needs[query_id(episode)]
            found[ZOOM_NEED] = None if need is None else need / 10
        return found

    def _need(self, episode: Trajectory) -> int | None:
        assert self.zoom_need is not None
        return self.zoom_need(key_of(episode).question, shown_images(episode))

    def _grade(self, episode: Trajectory) -> float | None:
        assert self.grade is not None
        key, said = key_of(episode), own_pieces(episode)[-1]
        answer = extract_answer(said) or last_boxed(without_thoughts(said))
        if answer is None and self.extract is not None:
            answer = self.extract(question_with_options(key), said)
            if answer is None:
                return None
        score = grade_answer(answer, in_words(key), self.grade)
        return score.value if score.available else None


NO_GRADERS = Graders()
"""Nobody is asked."""
