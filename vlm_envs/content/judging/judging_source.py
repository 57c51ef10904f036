"""Cases of the three tracks, drawn from scenes, reports, and instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from vlm_envs.content.judging.document_track import draw_document_case
from vlm_envs.content.judging.instruction_track import Requirements, draw_instruction_case
from vlm_envs.content.judging.judging_cases import NUM_CANDIDATES, TRACKS, Case, judging_sample
from vlm_envs.content.judging.picture_track import draw_picture_case
from vlm_envs.content.random_choice import pick
from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.qa.sample import Sample, SampleSource
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.tools.text_profiles import PROFILES
from vlm_envs.validation import require_choice

_MAX_TRIES = 400
_MAX_SEED = 2**63
_ID = re.compile(r"judging:(\w+):(\w+):([124]):(forward|reverse):(0|[1-9][0-9]{0,18}):(.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseName:
    """Everything needed to recreate a case.

    Attributes:
        track: One of `TRACKS`.
        profile: Definition by which constraints are checked.
        num_candidates: 1, 2 or 4.
        is_reversed: Whether the candidates are in the opposite order.
        seed: Seed of the generator.
        question_id: Id of the underlying question; for `instruction_following`, the requirements if they are
            not the default.
    """

    track: str
    profile: str
    num_candidates: int
    is_reversed: bool
    seed: int
    question_id: str = ""

    def __str__(self) -> str:
        order = "reverse" if self.is_reversed else "forward"
        return f"judging:{self.track}:{self.profile}:{self.num_candidates}:{order}:{self.seed}:{self.question_id}"

    @classmethod
    def read(cls, sample_id: str) -> CaseName:
        """Parses an id.

        Raises:
            LevelError: If it is malformed.
        """
        match = _ID.fullmatch(sample_id)
        if not match or match[1] not in TRACKS or match[2] not in PROFILES or int(match[5]) >= _MAX_SEED:
            example = cls(track="instruction_following", profile="arm", num_candidates=2, is_reversed=False, seed=77)
            raise LevelError(
                f"{sample_id[:80]!r} is not the id of a case. Expected the track, definition, number of candidates, "
                "order, "
                f"seed, and the id of the underlying question, if any, such as {str(example)!r}."
            )
        track, profile, num_candidates, order, seed, question_id = match.groups()
        return cls(
            track=track,
            profile=profile,
            num_candidates=int(num_candidates),
            is_reversed=order == "reverse",
            seed=int(seed),
            question_id=question_id,
        )


@dataclass(frozen=True, kw_only=True)
class JudgingSource:
    """A source of responses to judge, whose flaws are known.

    Attributes:
        tracks: Tracks, drawn with equal probability.
        num_candidates: 1 (is it right?), 2 or 4 (which one is right?).
        reverse_order: Whether candidates are shown in the opposite order. Equal seeds give otherwise equal
            cases, so running an evaluation twice on the same seeds covers both orders. Ids that name the
            other order are also found and shown in this one, so that levels can be judged in both orders.
        profile: Definition by which constraints are checked.
        requirements: Constraints on the requirements of `instruction_following`.
        scenes: Source of questions for `fine_grained`; `SceneSource()` by default.
        reports: Source of questions for `document`; `ReportSource()` by default.

    Raises:
        ConfigError: If a value is not valid.
    """

    name: ClassVar[str] = "judging"
    tracks: tuple[str, ...] = TRACKS
    num_candidates: int = 2
    reverse_order: bool = False
    profile: str = "arm"
    requirements: Requirements = Requirements()  # noqa: RUF009 - frozen
    scenes: SampleSource | None = field(default=None, repr=False)
    reports: SampleSource | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.tracks or len(set(self.tracks)) < len(self.tracks):
            raise ConfigError(f"tracks must list at least one track and no duplicates; got {self.tracks!r}.")
        for track in self.tracks:
            require_choice("tracks", track, TRACKS)
        if isinstance(self.num_candidates, bool) or self.num_candidates not in NUM_CANDIDATES:
            raise ConfigError(f"num_candidates must be 1, 2 or 4; got {self.num_candidates!r}.")
        if self.requirements.counterfactual and self.num_candidates > 2:
            raise ConfigError("counterfactual needs num_candidates=1 or 2; only one of four responses can be right.")
        require_choice("profile", self.profile, PROFILES)

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split.

        Args:
            rng: The only source of randomness.
            split: `"train"`, `"val"` or `"test"`. The split is decided by the underlying question, or by the
                instruction, or, for counterfactual pairs, by both texts.

        Raises:
            GenerationError: If no case was found.
            EngineUnavailableError: If the packages of a track are not installed.
        """
        sample_id, case = self.draw_case(rng, split)
        return judging_sample(case, sample_id)

    def draw_case(self, rng: np.random.Generator, split: str) -> tuple[str, Case]:
        """Returns the id and case of the sample that `draw` returns for an equal generator; raises as `draw`."""
        require_choice("split", split, SPLITS)
        track = pick(rng, self.tracks)
        for _ in range(_MAX_TRIES):
            question = None if track == "instruction_following" else self._questions[track].draw(rng, split)
            name = CaseName(
                track=track,
                profile=self.profile,
                num_candidates=self.num_candidates,
                is_reversed=self.reverse_order,
                seed=int(rng.integers(_MAX_SEED)),
                question_id=str(self.requirements) if question is None else question.sample_id,
            )
            # The underlying question already belongs to the split, and so does the case
            case = _make(name, question, lambda content: split_of(content.encode()) == split)
            if case is not None:
                return str(name), case
        raise GenerationError(f"No case of track {track!r} and split {split!r} was found in {_MAX_TRIES} attempts.")

    def find(self, sample_id: str) -> Sample:
        """Returns the sample with an id, in the order that the id names, or in the reverse one.

        Raises:
            LevelError: If it is not the id of a case.
        """
        if self.reverse_order:
            sample_id = str(replace(CaseName.read(sample_id), is_reversed=True))
        return judging_sample(self.case(sample_id), sample_id)

    def case(self, sample_id: str) -> Case:
        """Returns the case with an id, including flaws and constraints; candidates are in the order shown.

        Raises:
            LevelError: If it is not the id of a case.
        """
        name = CaseName.read(sample_id)
        question = None
        if name.track != "instruction_following":
            if not name.question_id:
                raise LevelError(f"{sample_id[:80]!r}: a case about an image or a document needs the id of a question.")
            question = self._questions[name.track].find(name.question_id)
        elif Requirements.read(name.question_id) is None:
            raise LevelError(f"{sample_id[:80]!r}: a case about an instruction has no question id.")
        case = _make(name, question)
        if case is None:
            raise LevelError(f"{sample_id[:80]!r}: this seed does not produce a case from this question.")
        return case

    @cached_property
    def _questions(self) -> dict[str, SampleSource]:
        """Question sources by track, created on first use because they import packages."""
        from vlm_envs.content.reports.report_source import ReportSource
        from vlm_envs.content.scenes.scene_source import SceneSource

        return {
            "fine_grained": self.scenes if self.scenes is not None else SceneSource(),
            "document": self.reports if self.reports is not None else ReportSource(),
        }


def _make(name: CaseName, question: Sample | None, is_wanted: Callable[[str], bool] | None = None) -> Case | None:
    """Returns the case of a name; None if its seed does not produce one, or if its instruction is rejected."""
    rng, number = np.random.default_rng(name.seed), name.num_candidates
    if question is None:
        case = draw_instruction_case(
            rng,
            num_candidates=number,
            profile=name.profile,
            requirements=Requirements.read(name.question_id),
            is_wanted=is_wanted,
        )
    else:
        draw = draw_picture_case if name.track == "fine_grained" else draw_document_case
        case = draw(rng, question, num_candidates=number)
    return case.reordered(range(number)[::-1]) if case is not None and name.is_reversed else case
