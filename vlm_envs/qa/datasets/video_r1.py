r"""Video-R1: questions about videos and images from many sources, for SFT (165k) and reinforcement learning (260k).

Layout: `Video-R1-260k.json`, `Video-R1-COT-165k.json` or parts of them, each a list (or `.jsonl`, one object
per line) of objects with `problem_id`, `problem`, `data_type` (`video` or `image`), `problem_type` (`multiple
choice`, `numerical`, `regression`, `OCR` or `free-form`), `options` (such as `A. a cup`; empty if there are
none), `solution` (the answer within `<answer>` and `</answer>`), `path` (such as
`./CLEVRER/train/video_1.mp4`) and `data_source`; the COT file also has a thought as `process`, which is
ignored. Images are at their paths.

Videos are not decoded. The frames of a video are expected in a folder with its path but no extension, two per
second, in the order of the numbers in their names, with decimals or leading zeros, as `ffmpeg -i video_1.mp4
-vf fps=2 video_1/%04d.jpg` writes them. If there are more than 32 (`max_frames`), 32 evenly spaced ones are
shown, including the first and the last.

Assumptions: two frames per second; the `solution` of a choice is a letter; numerical answers must be equal;
regression has a tolerance of 5%, where Video-R1 rewards by distance; OCR is compared by similarity (ANLS),
where Video-R1 uses word error rates; free-form answers need a judge. Splits are decided by a hash of the
path, so the questions of a video stay together. Rows without frames or an image are omitted.

Not tested on the original data.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from vlm_envs.qa.datasets.dataset_images import image_ref
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError, Row, category
from vlm_envs.qa.datasets.dataset_source import AnsweredRow, Copy, Dataset, PictureRow, rows_by
from vlm_envs.qa.sample import Sample, cluster_id
from vlm_envs.responses.answers import RELATIVE_TOLERANCE, AnswerKey, AnswerKind
from vlm_envs.tools.data_files import FileRoot
from vlm_envs.tools.tool_errors import ToolError
from vlm_envs.validation import require_positive

FRAMES_PER_SECOND = 2
"""Frame rate of the folders of frames."""

MAX_FRAMES = 32
"""Default maximum number of frames shown per video (Argos, section 4.2, stage I)."""

_KINDS: dict[str, AnswerKind] = {
    "multiple choice": "choice",
    "numerical": "number",
    "regression": "number",
    "ocr": "anls",
    "free-form": "semantic",
}
_TOLERANCES = {"numerical": 0.0, "regression": RELATIVE_TOLERANCE}
_SOLUTION = re.compile(r"\s*<answer>(.*?)</answer>\s*", re.DOTALL)
_OPTION = re.compile(r"\s*\(?([A-Za-z])\)?\s*[.:)]\s*(.*\S)\s*", re.DOTALL)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
_INNER_EXTENSION = re.compile(r"(\.(?:mp[234]|mpeg[1-4]|h26[45]|av1|vp[89]))\.")
"""Endings of videos in whose names a number follows."""
_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True, kw_only=True, slots=True)
class VideoRow(AnsweredRow):
    """One question about a video.

    Attributes:
        folder: Folder of its frames, relative to the copy's folder.
        copy: The copy.
        max_frames: Maximum number of frames shown.
    """

    folder: str
    copy: Copy
    max_frames: int

    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample, after reading the headers of its frames."""
        row, names = Row({}, self.where), frame_names(self.copy, self.folder)
        if not names:
            row.broken(f"images in {self.folder}", "none")
        chosen = spread(len(names), self.max_frames)
        try:
            images = tuple(image_ref(self.copy.image(f"{self.folder}/{names[index]}")) for index in chosen)
        except ToolError as error:
            raise BrokenRowError(f"{self.where}: {error}") from error
        if len({(image.width, image.height) for image in images}) > 1:
            row.broken(f"frames of one size in {self.folder}", "several sizes")
        return self.sample_of(
            sample_id,
            digest=self.digest_with(images),
            cluster=cluster_id("video", self.folder),
            images=images,
            times_s=tuple(index / FRAMES_PER_SECOND for index in chosen),
        )


def frame_names(copy: Copy, folder: str) -> list[str]:
    """Returns the images in a folder of a copy, ordered by the numbers in their names; empty if there is no folder."""
    if not copy.root.has_folder(folder):
        return []
    names = FileRoot(Path(copy.root.folder, folder)).names()
    return sorted((name for name in names if name.lower().endswith(_EXTENSIONS)), key=_by_number)


def _by_number(name: str) -> tuple[list[str | Decimal], str]:
    """Returns a sort key by the numbers in a name: `x.t2.25.jpg` before `x.t2.5.jpg` before `x.t10.jpg`.

    The dot after an extension is not a decimal point: `clip.mp4.9.jpg` comes before `clip.mp4.10.jpg`.
    """
    parts = _NUMBER.split(_INNER_EXTENSION.sub(r"\1 ", name.casefold().rpartition(".")[0]))
    return [Decimal(part) if index % 2 else part for index, part in enumerate(parts)], name


def spread(number: int, most: int) -> tuple[int, ...]:
    """Returns up to `most` evenly spaced indices of `number` items, including the first and the last."""
    if number <= most:
        return tuple(range(number))
    return tuple(index * (number - 1) // (most - 1) for index in range(most))


def _row(max_frames: int, copy: Copy, row: Row) -> AnsweredRow:
    path = row.text("path").removeprefix("./")
    kind, answer, shown = category(row.text("problem_type")), _answer(row), row.text("data_type")
    named: Any = {"key": row.key, "where": row.where, "split": copy.split_by(path)}
    if shown == "image":
        if not copy.has(path):
            row.broken(f"an image {path}", "none")
        return PictureRow(**named, answer=answer, category=kind, images=(copy.image(path),))
    if shown != "video":
        row.broken("'video' or 'image' as 'data_type'", shown)
    folder = path.rsplit(".", 1)[0]
    if not copy.root.has_folder(folder):
        row.broken(f"a folder {folder} with the frames of {path}", "none")
    return VideoRow(**named, answer=answer, category=kind, folder=folder, copy=copy, max_frames=max_frames)


def _answer(row: Row) -> AnswerKey:
    problem_type = row.text("problem_type").casefold()
    if (kind := _KINDS.get(problem_type)) is None:
        row.broken(f"one of {', '.join(_KINDS)} as 'problem_type'", row.fields["problem_type"])
    solution = _SOLUTION.fullmatch(row.text("solution"))
    if solution is None or not solution[1].strip():
        row.broken("an answer within <answer> and </answer> as 'solution'", row.fields["solution"])
    return row.answer_key(
        kind,
        solution[1].strip(),
        options=_options(row) if kind == "choice" else (),
        question=row.text("problem"),
        tolerance=_TOLERANCES.get(problem_type),
    )


def _options(row: Row) -> tuple[str, ...]:
    """Returns the texts of the options without their letters; empty if only the question contains them."""
    options = row.fields.get("options") or []
    if not isinstance(options, list):
        row.broken("a list as 'options'", options)
    read = [match for option in options if isinstance(option, str) and (match := _OPTION.fullmatch(option))]
    if [match[1].upper() for match in read] != list(string.ascii_uppercase[: len(options)]):
        row.broken("'options' that begin with A., B. and so on", options)
    return tuple(match[2] for match in read)


def video_r1(max_frames: int = MAX_FRAMES) -> Dataset:
    """Returns the dataset with at most `max_frames` frames shown per video, 2 or more."""
    return Dataset(
        expected="a folder with Video-R1-260k.json or Video-R1-COT-165k.json, and the images and frames at their paths",
        files=lambda root: [*root.names(".json"), *root.names(".jsonl")],
        rows=rows_by(partial(_row, require_positive("max_frames", max_frames, minimum=2))),
        is_benchmark=False,
        settings=(max_frames,),
    )
