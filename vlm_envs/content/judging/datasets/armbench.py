"""ARMBench-VL: three tracks, one response to be judged or two or four to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vlm_envs.content.judging.cases import NUM_CANDIDATES, TRACKS
from vlm_envs.content.judging.datasets.reading import DataFolder, FileRow
from vlm_envs.content.judging.datasets.rows import JudgedRow, judged_each
from vlm_envs.qa.datasets.dataset_images import media_fault, row_image, without_marks
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError

RELEASED = "fine_grained_perception.jsonl multimodal_long_document.jsonl multimodal_instruction_following.jsonl"
"""The files of the release, one a track."""

_DOCUMENTS = "documents"
_NUM_RESPONSES = {"single_rm": 1, "pair_rm": 2, "2-way-pair_rm": 2, "4-way-pair_rm": 4}
"""Kinds of judging by the name that `rm_tag` gives them."""


def armbench_rows(data: DataFolder) -> Iterator[JudgedRow | BrokenRowError]:
    """Yields the rows of ARMBench-VL, and what is wrong with broken ones; as released or in this project's own layout.

    Released (read off ARM-Thinker's evaluation code): `idx`, `rm_tag` (`single_rm`, `pair_rm`, `2-way-pair_rm` or
    `4-way-pair_rm`), `question`, `preds` (1, 2 or 4 texts), `gt` (`"True"` or `"False"`, or the number of the better
    one), `images` (the first one is the picture, a file), and for documents `doc_id` (a PDF, which is looked for in the
    folder `documents`: MMLongBench-Doc's), for instructions `constraints` (the first one's `value` is what is judged).

    Own: `id`, `track` (one of `TRACKS`), `question`, `responses` (1, 2 or 4 texts), `answer` (for one response true or
    false, for several the number of the right one, counted from 1), and one of `image` (a file or base64, or a list of
    it as `images`), `document` (a PDF of the folder), or `document` with `pages` (pictures of its pages); nothing for
    plain instructions. `evidence_pages` may name pages, counted from 1. Not run on the original data here.

    No two responses of an own row may be equal. In a released row the right response may equal no other, but two wrong
    ones may be equal: two models can make the same mistake, and the benchmark's own rows are kept as they are.
    """
    return judged_each(data.rows(), lambda row: _released_row(row) if "rm_tag" in row.values else _row(row))


def judged_rows(data: DataFolder) -> Iterator[JudgedRow | BrokenRowError]:
    """Yields rows of one's own, to train on, in the own layout of `armbench_rows`, and what is wrong with broken ones.

    `python -m training pairs` writes such a file.
    """
    return judged_rows_of(data.rows())


def judged_rows_of(rows: Iterable[FileRow | BrokenRowError]) -> Iterator[JudgedRow | BrokenRowError]:
    """Yields what `judged_rows` makes of rows from anywhere."""
    return judged_each(rows, _own_row)


def _own_row(row: FileRow) -> JudgedRow:
    judged = _row(row)
    return replace(judged, category=f"{judged.track}_judged_{len(judged.responses)}")


def _released_row(row: FileRow) -> JudgedRow:
    tag = row.text("rm_tag")
    if tag not in _NUM_RESPONSES:
        raise row.broken(f"'rm_tag' must be one of {', '.join(_NUM_RESPONSES)}; got {tag[:60]!r}.")
    responses = row.texts("preds", (_NUM_RESPONSES[tag],))
    right = _released_right(row, len(responses))
    document = f"{_DOCUMENTS}/{row.text('doc_id')}" if "doc_id" in row.values else ""
    requirement = _requirement(row)
    track = "document" if document else "instruction_following" if requirement else "fine_grained"
    return JudgedRow(
        where=row.where,
        row_id=str(row.get("idx", (str, int))),
        track=track,
        category=f"{track}_armbench_{len(responses)}",
        request="\n".join(filter(None, (without_marks(row.text("question")), requirement))),
        # A model may have made the same mistake twice; the data set's own rows are kept as long as one is right
        responses=responses if right is None else row.distinct(responses, right),
        right=right,
        image="" if document else row.texts("images", range(1, 101))[0],
        document=document,
    )


def _requirement(row: FileRow) -> str:
    """Returns what a response is to satisfy, where a row is about that; empty for others."""
    if not row.values.get("constraints"):
        return ""
    first = row.get("constraints", list)[0]
    if not isinstance(first, dict) or not isinstance(first.get("value"), str):
        raise row.broken("a constraint is an object with a text as 'value'.")
    return str(first["value"])


def _released_right(row: FileRow, num_responses: int) -> int | None:
    """Returns the index of the right response; None for a single wrong one."""
    said = str(row.get("gt", (str, int, bool))).strip()
    if num_responses == 1 and said in ("True", "False"):
        return 0 if said == "True" else None
    if num_responses > 1 and said.isdecimal() and 1 <= int(said) <= num_responses:
        return int(said) - 1
    expected = "'True' or 'False'" if num_responses == 1 else f"a number from 1 to {num_responses}"
    raise row.broken(f"'gt' must be {expected}; got {said[:60]!r}.")


def _row(row: FileRow) -> JudgedRow:
    track = row.text("track")
    if track not in TRACKS:
        raise row.broken(f"'track' must be one of {', '.join(TRACKS)}; got {track[:60]!r}.")
    responses = row.distinct(row.texts("responses", NUM_CANDIDATES))
    document = row.text("document") if "document" in row.values else ""
    pages = tuple(row.texts("pages", range(1, 501))) if "pages" in row.values else ()
    if pages and not document:
        raise row.broken("'pages' needs a 'document', the name that tools call it by.")
    question, image = row.text("question"), row_image(row.values, row.where)
    if fault := media_fault(row.values, question, responses, (image is not None) + len(pages)):
        raise row.broken(f"{fault}.")
    return JudgedRow(
        where=row.where,
        row_id=str(row.get("id", (str, int))),
        track=track,
        category=f"{track}_armbench_{len(responses)}",
        request=without_marks(question),
        responses=responses,
        right=_right(row, len(responses)),
        image=image or "",
        document=document,
        pages=pages,
        evidence_pages=_evidence_pages(row),
    )


def _right(row: FileRow, num_responses: int) -> int | None:
    """Returns the index of the right response; None for a single wrong one."""
    if num_responses == 1:
        return 0 if row.get("answer", bool) else None
    number = row.get("answer", int)
    if not 1 <= number <= num_responses:
        raise row.broken(f"'answer' must be from 1 to {num_responses}; got {number}.")
    return number - 1


def _evidence_pages(row: FileRow) -> tuple[int, ...]:
    if "evidence_pages" not in row.values:
        return ()
    pages = row.get("evidence_pages", list)
    if not all(isinstance(page, int) and not isinstance(page, bool) and page >= 1 for page in pages):
        raise row.broken(f"'evidence_pages' must be numbers from 1; got {pages!r}.")
    return tuple(pages)
