"""Pairs of responses of which people, or a model, preferred one: VL-RewardBench, LLaVA-Critic, and files of one's own.

The layouts are those of the data cards and of released readers of them. VL-RewardBench's texts were read whole here
(all 1,250 rows, as R1-Reward's repository holds them); its pictures and LLaVA-Critic's rows were not at hand. Rows of
any of them with `<image>` in a response, or with media that are not read, are broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from vlm_envs.content.judging.datasets.reading import DataFolder, FileRow, is_file_name
from vlm_envs.content.judging.datasets.rows import JudgedRow, judged_each
from vlm_envs.qa.datasets.dataset_images import IMAGE_MARK, TableImage, media_fault, row_image, without_marks
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError
from vlm_envs.tools.tool_errors import quoted

_GROUPS = {
    "hallucination": ("povid", "hallucination", "rlhf", "rlaif"),
    "reasoning": ("reasoning", "mathverse", "mmmu"),
    "general": ("wildvision", "vlfeedback"),
}
"""Groups of VL-RewardBench by how its subsets, the folders of their pictures and the ids of their rows begin."""

_REST = "general"
"""Where rows belong whose id begins otherwise (`jailbreak-…`, `svit-…`): all are VLFeedback's, as the released `cal.py`
has it."""

_COMPARISON = re.compile(
    r"Question:\s*\[(?P<question>.*)\]\s*"
    r"The first response:\s*\[(?P<first>.*)\]\s*"
    r"The second response:\s*\[(?P<second>.*)\]\s*(?:ASSISTANT:\s*)?",
    re.DOTALL,
)
_PREFERRED = r"\b(?:{0}) (?:response|answer) is (?!not |no |hardly )(?:\w+ ){{0,2}}better\b|better response: \[{1}\]"
_FIRST = re.compile(_PREFERRED.format("first|1st", 1), re.IGNORECASE)
_SECOND = re.compile(_PREFERRED.format("second|2nd", 2), re.IGNORECASE)
_DENIED = re.compile(
    r"(?:(?:\bnot|n['’]t) (?:the case|true|correct|right|say|think|believe|claim|agree)"
    r"|\bneither do I (?:say|think|believe)|\b(?:wrong|false|incorrect|untrue)(?: to (?:say|think|believe|claim))?)"
    r"(?: that)?(?: the)? $",
    re.IGNORECASE,
)
"""Right before a verdict: it is not what is said."""


def vl_rewardbench_rows(data: DataFolder) -> Iterator[JudgedRow | BrokenRowError]:
    """Yields the rows of VL-RewardBench, and what is wrong with broken ones.

    Fields: `id`, `query`, `response` (two texts), `human_ranking` (the rank of each, 0 for the better one), and `image`
    (in the published table; a file or base64 in JSON) or `image_path` (a file). In place of `query`, `response` and
    `human_ranking` there may be `prompt`, `chosen` and `rejected`, as R1-Reward's `data.jsonl` has them. All other
    fields (`query_source`, `models`, `judge`, `rationale`, `ground_truth`) are ignored, but for `query_source` where
    neither the picture's path nor the id tells a row's group.
    """
    return judged_each(data.rows(), _ranked_row)


def pair_rows(data: DataFolder) -> Iterator[JudgedRow | BrokenRowError]:
    """Yields pairs of one's own, in the layout of preference data sets, and what is wrong with broken ones.

    Fields: `prompt`, `chosen`, `rejected`, each a text or, as in TRL, a list of one message; `image` (a file, base64,
    or in a table) where there is an image, or a list of it as `images`; `id`, by default the row's number. Rows with
    several images, placeholders without an image, or media that are not read are broken.
    """
    return judged_each(data.rows(), _own_pair)


def _own_pair(row: FileRow) -> JudgedRow:
    texts = {name: _said(row, name, role) for name, role in _ROLES.items()}
    image = row_image(row.values, row.where)
    _check_media(row, texts["prompt"], (texts["chosen"], texts["rejected"]), num_images=int(image is not None))
    return _preferred_row(replace(row, values={**row.values, **texts}), "pairs", image or "")


def _check_media(row: FileRow, prompt: str, responses: tuple[str, ...], *, num_images: int = 1) -> None:
    """Raises `BrokenRowError` for a row with images in responses, or with media that are not read."""
    if fault := media_fault(row.values, prompt, responses, num_images):
        raise row.broken(f"{fault}.")


_ROLES = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}


def _said(row: FileRow, field: str, role: str) -> str:
    """Returns the text of a field, or of the only message in it, in which images are marks."""
    value: Any = row.get(field, (str, list))
    if isinstance(value, str):
        return row.text(field)
    message = value[0] if len(value) == 1 and isinstance(value[0], dict) else {}
    content = message.get("content")
    if message.get("role") != role or not isinstance(content, str | list):
        raise row.broken(f"{field!r} must be a text or one message of {role}; got {quoted(value)}.")
    return content if isinstance(content, str) else "".join(_part(row, field, part) for part in content)


def _part(row: FileRow, field: str, part: Any) -> str:
    kind, text = (part.get("type"), part.get("text")) if isinstance(part, dict) else (None, None)
    if kind == "image":
        return IMAGE_MARK
    if kind != "text" or not isinstance(text, str):
        raise row.broken(f"{field!r} has a part that is no text or image; got {quoted(part)}.")
    return text


def _ranked_row(row: FileRow) -> JudgedRow:
    if "chosen" in row.values:
        image = _image(row)
        _check_media(row, row.text("prompt"), (row.text("chosen"), row.text("rejected")))
        return _preferred_row(row, f"vl_rewardbench_{_group(row, image)}", image)
    query, responses, ranking = row.text("query"), row.texts("response", (2,)), row.get("human_ranking", list)
    row.distinct(responses)
    if ranking not in ([0, 1], [1, 0]):
        raise row.broken(f"'human_ranking' must be [0, 1] or [1, 0], the better response having 0; got {ranking!r}.")
    _check_media(row, query, responses)
    image = _image(row)
    return JudgedRow(
        where=row.where,
        row_id=str(row.get("id", (str, int))),
        track="fine_grained",
        category=f"vl_rewardbench_{_group(row, image)}",
        request=without_marks(query),
        responses=responses,
        right=ranking.index(0),
        image=image,
    )


def _preferred_row(row: FileRow, category: str, image: str | TableImage) -> JudgedRow:
    """Returns a pair whose better response is told from the other by the name of its field."""
    return JudgedRow(
        where=row.where,
        row_id=str(row.values.get("id", row.number)),
        track="fine_grained",
        category=category,
        request=without_marks(row.text("prompt")),
        responses=row.distinct((row.text("chosen"), row.text("rejected"))),
        right=0,
        image=image,
    )


def _image(row: FileRow) -> Any:
    """Returns the image of a row that must have one."""
    if (image := row_image(row.values, row.where)) is None:
        raise row.broken("the row has no image; expected one as 'image'.")
    return image


def _group(row: FileRow, image: str | TableImage) -> str:
    """Returns what a row is about, by its picture's path, or else its id, or else where its query is from.

    Of a path the innermost folder that tells counts, and the file's own name where none does.
    """
    path = image if isinstance(image, str) and is_file_name(image) else ""
    told = str(row.values.get("query_source") or "").lower()
    *folders, name = PurePosixPath(path.lower()).parts or ("",)
    for origin in (*reversed(folders), name, str(row.values.get("id", "")).lower()):
        for group, names in _GROUPS.items():
            if origin.startswith(names):
                return group
    return next((group for group, names in _GROUPS.items() if any(name in told for name in names)), _REST)


def llava_critic_rows(data: DataFolder) -> Iterator[JudgedRow | BrokenRowError]:
    """Yields the comparisons of LLaVA-Critic-113k that have a winner, and what is wrong with broken rows.

    Fields: `id`, `image`, `conversations` (turns with `from` and `value`): what a person says, with `Question: […]`,
    `The first response: […]` and `The second response: […]`, and the model's verdict in free words; `source` is
    ignored. Rows of the other kind (one response, a score) and verdicts that name no winner, or both, are left out. Not
    run on the original data here.
    """
    return judged_each(data.rows(), _compared_row)


def _compared_row(row: FileRow) -> JudgedRow | None:
    turns = row.get("conversations", list)
    if len(turns) < 2 or not all(isinstance(turn, dict) and isinstance(turn.get("value"), str) for turn in turns):
        raise row.broken("'conversations' must be a list of at least two turns with a 'value' each.")
    asked, verdict = turns[0]["value"], turns[1]["value"]
    match = _COMPARISON.search(asked)
    right = _winner(verdict)
    if match is None or right is None:
        return None
    responses = (match["first"].strip(), match["second"].strip())
    if not all(responses) or responses[0] == responses[1]:
        return None
    preamble = without_marks(asked[: match.start()])  # Its placeholder and the question's are of the same image
    _check_media(row, preamble + match["question"], responses)
    return JudgedRow(
        where=row.where,
        row_id=str(row.get("id", (str, int))),
        track="fine_grained",
        category="llava_critic",
        request=without_marks(match["question"]),
        responses=responses,
        right=right,
        image=_image(row),
    )


def _winner(verdict: str) -> int | None:
    """Returns which response a verdict prefers; None when it names none, or both, or denies that one is better."""
    plain = verdict.replace("*", "")
    if any(_DENIED.search(plain[: found.start()]) for each in (_FIRST, _SECOND) for found in each.finditer(plain)):
        return None
    first, second = _FIRST.search(plain), _SECOND.search(plain)
    return None if bool(first) == bool(second) else int(second is not None)
