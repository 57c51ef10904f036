r"""Video-R1: questions about videos and pictures of many sources, for SFT (165k) and for reinforcement learning (260k).

Layout: `Video-R1-260k.json`, `Video-R1-COT-165k.json` or parts of them, each a list (or `.jsonl`, an object a line) of
objects with `problem_id`, `problem`, `data_type` (`video` or `image`), `problem_type` (`multiple choice`, `numerical`,
`regression`, `OCR` or `free-form`), `options` (such as `A. a cup`; empty where there are none), `solution` (the answer
within `<answer>` and `</answer>`), `path` (such as `./CLEVRER/train/video_1.mp4`) and `data_source`; the COT file has a
thought as `process` besides, which is not read. Images lie at their paths.

Nothing here decodes videos: the frames of one lie in a folder of its path without the ending, two a second, in the
order of the numbers in their names, decimals or with leading zeros, as `ffmpeg -i video_1.mp4 -vf fps=2
video_1/%04d.jpg` leaves them. Of more than 32, 32 are shown (`max_frames`), evenly spread over the whole, the first and
the last among them.

Assumed: two frames a second; a choice's `solution` is a letter; numerical answers must be equal; regression may be
5 % off, where Video-R1 pays by distance; OCR by its similarity (ANLS), where Video-R1 takes word error rates; free
answers by a judge. Splits are by a hash of the path, so the questions of a video stay together. Rows without frames or
an image are left out.

Not run on the original data here.
"""

from __future__ import annotations

import functools
import hashlib
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from vlm_envs.qa.datasets.dataset_images import image_ref
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError, Fields, answer_key, broken, category, each_row, text
from vlm_envs.qa.datasets.dataset_source import Copy, Dataset, DatasetRow, PictureRow
from vlm_envs.qa.sample import Sample, cluster_id
from vlm_envs.responses.answers import RELATIVE_TOLERANCE, AnswerKey, AnswerKind
from vlm_envs.tools.data_files import FileRoot
from vlm_envs.tools.tool_errors import ToolError
from vlm_envs.validation import require_positive

FRAMES_PER_SECOND = 2
"""Of the folders of frames."""

MAX_FRAMES = 32
"""Most frames that are shown of a video unless a world says otherwise (Argos, section 4.2, stage I)."""

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
_INNER_EXTENSION = re.compile(r"(\.[a-z]\w*)\.")
_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True, kw_only=True, slots=True)
class VideoRow(DatasetRow):
    """One question about a video.

    Attributes:
        answer: The key; it knows the question.
        category: Kind of question.
        folder: Where its frames are, relative to the copy's folder.
        copy: The copy.
        max_frames: Most frames that are shown.
    """

    answer: AnswerKey
    category: str
    folder: str
    copy: Copy
    max_frames: int

    @property
    def answer_kind(self) -> AnswerKind:
        """How answers are compared."""
        return self.answer.kind

    def sample(self, sample_id: str) -> Sample:
        """Returns the row as a sample; the headers of its frames are read."""
        names = frame_names(self.copy, self.folder)
        if not names:
            raise broken(self.where, f"pictures in {self.folder}", "none")
        chosen = spread(len(names), self.max_frames)
        try:
            images = tuple(image_ref(self.copy.image(f"{self.folder}/{names[index]}")) for index in chosen)
        except ToolError as error:
            raise BrokenRowError(f"{self.where}: {error}") from error
        if len({(image.width, image.height) for image in images}) > 1:
            raise broken(self.where, f"frames of one size in {self.folder}", "several sizes")
        content = hashlib.blake2b(digest_size=16)
        for part in (*(image.digest for image in images), self.answer.question, *self.answer.options):
            content.update(part.encode("utf-8", "surrogatepass") + b"\0")
        return Sample(
            sample_id=sample_id,
            question=self.answer.question,
            key=self.answer,
            category=self.category,
            digest=content.hexdigest(),
            cluster=cluster_id("video", self.folder),
            images=images,
            times_s=tuple(index / FRAMES_PER_SECOND for index in chosen),
        )


def frame_names(copy: Copy, folder: str) -> list[str]:
    """Returns the names of the images in a folder of a copy, by their numbers; none if no such folder is inside."""
    if not copy.root.has_folder(folder):
        return []
    names = FileRoot(Path(copy.root.folder, folder)).names()
    return sorted((name for name in names if name.lower().endswith(_EXTENSIONS)), key=_by_number)


def _by_number(name: str) -> tuple[list[str | Decimal], str]:
    """Returns a key that orders names by the numbers in them: `t-2.25.jpg` before `t-2.5.jpg` before `t-10.jpg`.

    The dot after an extension is no decimal point: `clip.mp4.9.jpg` comes before `clip.mp4.10.jpg`.
    """
    parts = _NUMBER.split(_INNER_EXTENSION.sub(r"\1 ", name.casefold().rpartition(".")[0]))
    return [Decimal(part) if index % 2 else part for index, part in enumerate(parts)], name


def spread(number: int, most: int) -> tuple[int, ...]:
    """Returns at most so many of the numbers from 0, evenly spread, the first and the last among them."""
    if number <= most:
        return tuple(range(number))
    return tuple(index * (number - 1) // (most - 1) for index in range(most))


def _rows(copy: Copy, *, max_frames: int) -> Iterator[DatasetRow | BrokenRowError]:
    for name in copy.files:
        stem = name.rsplit(".", 1)[0]

        def row(fields: Fields, where: str, number: int, stem: str = stem) -> DatasetRow:
            return _row(copy, fields, where, key=f"{stem}/{number}", max_frames=max_frames)

        yield from each_row(copy.root, name, row)


def _row(copy: Copy, fields: Fields, where: str, *, key: str, max_frames: int) -> DatasetRow:
    path = text(fields, "path", where).removeprefix("./")
    kind, answer = text(fields, "problem_type", where), _answer(fields, where)
    about = text(fields, "data_type", where)
    if about == "video":
        folder = path.rsplit(".", 1)[0]
        if not copy.root.has_folder(folder):
            raise broken(where, f"a folder {folder} with the frames of {path}", "none")
        return VideoRow(
            key=key,
            where=where,
            split=copy.split_by(path),
            answer=answer,
            category=category(kind),
            folder=folder,
            copy=copy,
            max_frames=max_frames,
        )
    if about != "image":
        raise broken(where, "'video' or 'image' as 'data_type'", about)
    if not copy.has(path):
        raise broken(where, f"an image {path}", "none")
    return PictureRow(
        key=key,
        where=where,
        split=copy.split_by(path),
        answer=answer,
        category=category(kind),
        images=(copy.image(path),),
    )


def _answer(fields: Fields, where: str) -> AnswerKey:
    problem_type = text(fields, "problem_type", where).casefold()
    kind = _KINDS.get(problem_type)
    if kind is None:
        raise broken(where, f"one of {', '.join(_KINDS)} as 'problem_type'", fields.get("problem_type"))
    solution = _SOLUTION.fullmatch(text(fields, "solution", where))
    if solution is None or not solution[1].strip():
        raise broken(where, "an answer within <answer> and </answer> as 'solution'", fields.get("solution"))
    question = text(fields, "problem", where)
    options = _options(fields, where) if kind == "choice" else ()
    tolerance = _TOLERANCES.get(problem_type)
    return answer_key(where, kind, solution[1].strip(), options=options, question=question, tolerance=tolerance)


def _options(fields: Fields, where: str) -> tuple[str, ...]:
    """Returns the texts of the options, each without its letter; none where they stand in the question alone."""
    options = fields.get("options") or []
    if not isinstance(options, list):
        raise broken(where, "a list as 'options'", options)
    read = [_OPTION.fullmatch(option) if isinstance(option, str) else None for option in options]
    letters = [match[1].upper() for match in read if match is not None]
    if letters != list(string.ascii_uppercase[: len(options)]):
        raise broken(where, "'options' that begin with A., B. and so on", options)
    return tuple(match[2] for match in read if match is not None)


def video_r1(max_frames: int = MAX_FRAMES) -> Dataset:
    """Returns how copies are read of whose videos at most so many frames are shown, 2 or more."""
    return Dataset(
        expected="a folder with Video-R1-260k.json or Video-R1-COT-165k.json, and the images and frames at their paths",
        files=lambda root: [*root.names(".json"), *root.names(".jsonl")],
        rows=functools.partial(_rows, max_frames=require_positive("max_frames", max_frames, minimum=2)),
        is_benchmark=False,
        settings=(max_frames,),
    )
