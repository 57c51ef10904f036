"""Judged responses from a local copy of public data, or from your own pairs; nothing is downloaded.

| kind | file in the folder | fields of a row |
|---|---|---|
| `vl_rewardbench` | `data/test-*.parquet`, `data.jsonl` | `id`, `query`, `response` (two), `human_ranking`,
`image` |
| `llava_critic` | `pairwise/train-*.parquet` | `id`, `image`, `conversations` of a comparison and its verdict
|
| `mm_ifeval` | | `id`, `image`, `question`, `constraints`, and a model's `prediction` |
| `armbench_vl` | its three `.jsonl` files | `idx`, `rm_tag`, `question`, `preds`, `gt`, `images` or `doc_id`
|
| `pairs` | | `prompt`, `chosen`, `rejected`, and optionally `image` |

A file `<kind>.jsonl` (one row per line), `<kind>.json` (a list of rows) or `<kind>.parquet` takes precedence
over the files that a dataset is published in. An `image` is a file in the folder, base64, or part of the
table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from vlm_envs.content.judging.judging_cases import NUM_CANDIDATES, TRACKS
from vlm_envs.content.judging.preference_rows import (
    JudgedRow,
    ShownRow,
    check_distinct,
    files_of,
    is_file_name,
    shown_rows,
)
from vlm_envs.qa.datasets.dataset_images import IMAGE_MARK, TableImage, without_marks
from vlm_envs.qa.datasets.dataset_rows import Row, read_rows, rows_of
from vlm_envs.qa.datasets.dataset_source import DatasetSource
from vlm_envs.qa.datasets.dataset_splits import shared, whole_split
from vlm_envs.tools.data_files import FileRoot
from vlm_envs.tools.instruction_checkers import Constraint, checker_named
from vlm_envs.tools.text_profiles import MM_IFENGINE
from vlm_envs.validation import require_choice


def mm_ifeval_row(row: Row) -> JudgedRow | None:
    """Returns a prediction on MM-IFEval that rules can judge; None if they cannot.

    Fields: `id`, `question` (the whole prompt, as in VLMEvalKit's table) or `instruction` (as in
        MM-IFEngine's own files; the constraints' texts are appended as in its evaluation), `constraints` (a
        list, or a list as JSON text), `image` or `image_path`, and `prediction`, the response of an evaluated
        model (MM-IFEval itself has none; evaluation tools add that column). A constraint is `{"key", "value",
        "judge"}` with `judge` such as `{"method": "rule_based", "verify_funcs": [{"func": …, "params":
        […]}]}`. Rows with a constraint that only a model can judge are omitted, as are rows with a `tag`
        other than `C-Level` or an `infer_type` other than `main`. A response is right if it passes every
        check as MM-IFEngine defines it. Not tested on the original data.
    """
    if (row.fields.get("tag") or "C-Level", row.fields.get("infer_type") or "main") != ("C-Level", "main"):
        return None
    listed = _constraints(row)
    if any(item["judge"]["method"] != "rule_based" for item in listed):
        return None
    if not row.has("prediction"):
        row.fault("the field 'prediction' is missing: run a model on MM-IFEval and add its response to each row")
    constraints = [_constraint(row, call) for item in listed for call in _calls(row, item["judge"])]
    response = row.get("prediction", str)
    failed = [item for item in constraints if not item.check(response, profile=MM_IFENGINE).passed]
    return JudgedRow(
        where=row.where,
        track="instruction_following",
        category=f"mm_ifeval_{failed[0].checker if failed else 'right'}",
        request=_request(row, listed),
        responses=(response,),
        right=None if failed else 0,
        image=row.image() or "",
    )


def _request(row: Row, constraints: list[dict[str, Any]]) -> str:
    """Returns the whole prompt, or the instruction followed by the text of each constraint."""
    if row.has("question") or not row.has("instruction"):
        return without_marks(row.raw("question"))
    said = [item["value"] for item in constraints if isinstance(item.get("value"), str) and item["value"].strip()]
    if len(said) < len(constraints):
        row.fault("an 'instruction' needs the text of each constraint as its 'value'")
    return " ".join((without_marks(row.raw("instruction")), *said))


def _constraints(row: Row) -> list[dict[str, Any]]:
    """Returns the constraints of a row, which may be JSON text."""
    value = row.get("constraints", list, str)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            row.fault(f"'constraints' is not valid JSON: {error}")
    if not isinstance(value, list) or not value:
        row.broken("a list of at least one constraint as 'constraints'", value)
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("judge"), dict):
            row.broken("a constraint with 'key', 'value' and 'judge'", item)
        if not isinstance(method := item["judge"].get("method"), str):
            row.broken("a text such as 'rule_based' as 'method' of a 'judge'", method)
    return value


def _calls(row: Row, judge: Mapping[str, Any]) -> list[Any]:
    """Returns the function calls of a rule; a rule without calls would accept every response."""
    calls = judge.get("verify_funcs")
    if not isinstance(calls, list) or not calls:
        row.broken("a list of at least one call as 'verify_funcs'", calls)
    return calls


def _constraint(row: Row, call: Any) -> Constraint:
    """Converts a call of an MM-IFEngine function, with positional parameters, to a constraint."""
    if not isinstance(call, dict) or not isinstance(call.get("func"), str):
        row.broken("an object with 'func' and 'params' in 'verify_funcs'", call)
    params = call.get("params", [])
    try:
        checker = checker_named(call["func"])
        names = list(checker.arguments.model_fields)
        if not isinstance(params, list) or len(params) != len(names):
            raise ValueError(f"it takes {', '.join(names) or 'no parameters'}; got {params!r}")
        return Constraint.of(checker.name, **dict(zip(names, params, strict=True)))
    except ValueError as error:  # base class of ConfigError and pydantic's ValidationError
        row.fault(f"{call['func'][:80]} cannot be called: {error}")


_GROUPS = {
    "hallucination": ("povid", "hallucination", "rlhf", "rlaif"),
    "reasoning": ("reasoning", "mathverse", "mmmu"),
    "general": ("wildvision", "vlfeedback"),
}
"""Groups of VL-RewardBench, by prefixes of its subsets, image folders, and row ids."""

_REST = "general"
"""Group of rows with any other id (`jailbreak-…`, `svit-…`): all belong to VLFeedback, as in the released `cal.py`."""

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
"""Text immediately before a verdict that negates it."""


def vl_rewardbench_row(row: Row) -> JudgedRow:
    """Returns a row of VL-RewardBench.

    Fields: `id`, `query`, `response` (two texts), `human_ranking` (the rank of each, 0 for the better one),
        and `image` (in the published table; a file or base64 in JSON) or `image_path` (a file). `prompt`,
        `chosen` and `rejected` may replace `query`, `response` and `human_ranking`, as in R1-Reward's
        `data.jsonl`. All other fields (`query_source`, `models`, `judge`, `rationale`, `ground_truth`) are
        ignored, except that `query_source` decides a row's group if neither the image path nor the id does.
    """
    if row.has("chosen"):
        (request, *responses), right = [row.raw(name) for name in _ROLES], 0
    else:
        request, responses = row.raw("query"), [*row.raw_texts("response", (2,))]
        ranking: Any = row.fields.get("human_ranking")
        if ranking not in ([0, 1], [1, 0]):
            row.broken("[0, 1] or [1, 0] as 'human_ranking', with 0 for the better response", ranking)
        right = ranking.index(0)
    row.check_media(request, responses)
    image = _image(row)
    return replace(_pair(row, f"vl_rewardbench_{_group(row, image)}", request, *responses, image=image), right=right)


def _pair(row: Row, category: str, prompt: str, chosen: str, rejected: str, *, image: str | TableImage) -> JudgedRow:
    """Returns a pair of responses, the better one first."""
    check_distinct(row, (chosen, rejected))
    return JudgedRow(
        where=row.where,
        track="fine_grained",
        category=category,
        request=without_marks(prompt),
        responses=(chosen, rejected),
        right=0,
        image=image,
    )


def own_pair(row: Row) -> JudgedRow:
    """Returns one of your own pairs, in the usual layout of preference datasets.

    Fields: `prompt`, `chosen`, `rejected`, each a text or, as in TRL, a list of one message; optionally
        `image` (a file, base64, or part of the table), or a list of one as `images`. Rows with several
        images, placeholders without an image, or unsupported media are broken.
    """
    texts = [_said(row, *field) for field in _ROLES.items()]
    image = row.image()
    row.check_media(texts[0], texts[1:], num_images=int(image is not None))
    return _pair(row, "pairs", *texts, image=image or "")


_ROLES = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}


def _said(row: Row, field: str, role: str) -> str:
    """Returns the text of a field or of its only message, with marks in place of images."""
    value: Any = row.get(field, str, list)
    if isinstance(value, list):
        message = value[0] if len(value) == 1 and isinstance(value[0], dict) else {}
        content = message.get("content")
        if message.get("role") != role or not isinstance(content, str | list):
            row.broken(f"a text or one message of {role} as {field!r}", value)
        value = content if isinstance(content, str) else "".join(_part(row, field, part) for part in content)
    if not value.strip():
        row.broken(f"a text as {field!r}", value)
    return str(value)


def _part(row: Row, field: str, part: Any) -> str:
    kind, text = (part.get("type"), part.get("text")) if isinstance(part, dict) else (None, None)
    if kind == "image":
        return IMAGE_MARK
    if kind != "text" or not isinstance(text, str):
        row.broken(f"parts that are texts or images in {field!r}", part)
    return text


def _image(row: Row) -> Any:
    """Returns the image of a row, which must have one."""
    if (image := row.image()) is None:
        row.broken("an image as 'image'", image)
    return image


def _group(row: Row, image: str | TableImage) -> str:
    """Returns the group of a row, by its image path, its id, or the source of its query, in this order.

    In a path, the innermost folder with a known prefix counts, then the file name.
    """
    path = image if isinstance(image, str) and is_file_name(image) else ""
    told = str(row.fields.get("query_source") or "").lower()
    *folders, name = PurePosixPath(path.lower()).parts or ("",)
    for origin in (*reversed(folders), name, str(row.fields.get("id") or "").lower()):
        for group, names in _GROUPS.items():
            if origin.startswith(names):
                return group
    return next((group for group, names in _GROUPS.items() if any(name in told for name in names)), _REST)


def llava_critic_row(row: Row) -> JudgedRow | None:
    """Returns a comparison of LLaVA-Critic-113k; None if it has no winner.

    Fields: `id`, `image`, `conversations` (turns with `from` and `value`): a person's turn, with `Question:
        […]`, `The first response: […]` and `The second response: […]`, and the model's verdict in free text;
        `source` is ignored. Rows of the other kind (one response and a score) are omitted, as are verdicts
        that name no winner, or both. Not tested on the original data.
    """
    turns = row.get("conversations", list)
    if len(turns) < 2 or not all(isinstance(turn, dict) and isinstance(turn.get("value"), str) for turn in turns):
        row.broken("a list of at least two turns with a 'value' each as 'conversations'", turns)
    asked, verdict = turns[0]["value"], turns[1]["value"]
    match, right = _COMPARISON.search(asked), _winner(verdict)
    if match is None or right is None:
        return None
    responses = (match["first"].strip(), match["second"].strip())
    if not all(responses) or responses[0] == responses[1]:
        return None
    preamble = without_marks(asked[: match.start()])  # its placeholder denotes the same image as the question's
    row.check_media(preamble + match["question"], responses)
    return replace(_pair(row, "llava_critic", match["question"], *responses, image=_image(row)), right=right)


def _winner(verdict: str) -> int | None:
    """Returns the preferred response; None if the verdict names neither or both, or negates the preference."""
    plain = verdict.replace("*", "")
    if any(
        _DENIED.search(plain[: found.start()]) for pattern in (_FIRST, _SECOND) for found in pattern.finditer(plain)
    ):
        return None
    first, second = _FIRST.search(plain), _SECOND.search(plain)
    return None if bool(first) == bool(second) else int(second is not None)


RELEASED = "fine_grained_perception.jsonl multimodal_long_document.jsonl multimodal_instruction_following.jsonl"
"""The files of the release, one per track."""

_DOCUMENTS = "documents"
_NUM_RESPONSES = {"single_rm": 1, "pair_rm": 2, "2-way-pair_rm": 2, "4-way-pair_rm": 4}
"""Number of responses by `rm_tag`."""


def armbench_row(row: Row) -> JudgedRow:
    """Returns a row of ARMBench-VL, as released or in this project's own layout.

    Released (according to ARM-Thinker's evaluation code): `idx`, `rm_tag` (`single_rm`, `pair_rm`,
    `2-way-pair_rm` or `4-way-pair_rm`), `question`, `preds` (1, 2 or 4 texts), `gt` (`"True"` or `"False"`,
    or the number of the better one), `images` (the first one is the image, a file), for documents `doc_id` (a
    PDF of MMLongBench-Doc in the folder `documents`), and for instructions `constraints` (the first one's
    `value` is judged).

    Own layout: `id`, `track` (one of `TRACKS`), `question`, `responses` (1, 2 or 4 texts), `answer` (true or
    false for one response, else the number of the right one, counted from 1), and one of `image` (a file or
    base64, or a list of one as `images`), `document` (a PDF in the folder), or `document` with `pages`
    (images of its pages); nothing for plain instructions. `evidence_pages` may list pages, counted from 1.
    Not tested on the original data.

    Responses in our own layout must all differ. In a released row, only the right response must differ from
    all others: two models can make the same mistake, and the benchmark's rows are kept as they are.
    """
    return _released_row(row) if row.has("rm_tag") else _own_row(row, "armbench")


def judged_row(row: Row) -> JudgedRow:
    """Returns one of your own rows to train on, in the own layout of `armbench_row`.

    `python -m training pairs` writes files of such rows.
    """
    return _own_row(row, "judged")


def _released_row(row: Row) -> JudgedRow:
    row.raw("rm_tag")
    responses = row.raw_texts("preds", (_NUM_RESPONSES[row.one_of("rm_tag", [*_NUM_RESPONSES])],))
    right = _released_right(row, len(responses))
    if right is not None:  # two wrong responses may be equal
        check_distinct(row, responses, right)
    document = f"{_DOCUMENTS}/{row.raw('doc_id')}" if row.has("doc_id") else ""
    requirement = _requirement(row)
    track = "document" if document else "instruction_following" if requirement else "fine_grained"
    return JudgedRow(
        where=row.where,
        track=track,
        category=f"{track}_armbench_{len(responses)}",
        request="\n".join(filter(None, (without_marks(row.raw("question")), requirement))),
        responses=responses,
        right=right,
        image="" if document else row.raw_texts("images", range(1, 101))[0],
        document=document,
    )


def _requirement(row: Row) -> str:
    """Returns the requirement that a response is judged by; empty if there is none."""
    if not row.fields.get("constraints"):
        return ""
    first = row.get("constraints", list)[0]
    if not isinstance(first, dict) or not isinstance(first.get("value"), str):
        row.broken("a constraint with a text as 'value'", first)
    return str(first["value"])


def _released_right(row: Row, num_responses: int) -> int | None:
    """Returns the index of the right response; None for a single wrong one."""
    said = str(row.get("gt", str, int, bool)).strip()
    if num_responses == 1 and said in ("True", "False"):
        return 0 if said == "True" else None
    if num_responses > 1 and said.isdecimal() and 1 <= int(said) <= num_responses:
        return int(said) - 1
    row.broken(f"{'True or False' if num_responses == 1 else f'a number from 1 to {num_responses}'} as 'gt'", said)


def _own_row(row: Row, name: str) -> JudgedRow:
    row.raw("track")
    track, responses = row.one_of("track", TRACKS), row.raw_texts("responses", NUM_CANDIDATES)
    check_distinct(row, responses)
    document = row.raw("document") if row.has("document") else ""
    pages = row.raw_texts("pages", range(1, 501)) if row.has("pages") else ()
    if pages and not document:
        row.fault("'pages' needs a 'document', the name that tools call it by")
    question, image = row.raw("question"), row.image()
    row.check_media(question, responses, (image is not None) + len(pages))
    evidence_pages = row.fields.get("evidence_pages")
    return JudgedRow(
        where=row.where,
        track=track,
        category=f"{track}_{name}_{len(responses)}",
        request=without_marks(question),
        responses=responses,
        right=_right(row, len(responses)),
        image=image or "",
        document=document,
        pages=pages,
        evidence_pages=() if evidence_pages is None else row.page_numbers(evidence_pages, "evidence_pages"),
    )


def _right(row: Row, num_responses: int) -> int | None:
    """Returns the index of the right response; None for a single wrong one."""
    if num_responses == 1:
        return 0 if row.get("answer", bool) else None
    number = row.get("answer", int)
    if not 1 <= number <= num_responses:
        row.broken(f"a number from 1 to {num_responses} as 'answer'", number)
    return int(number) - 1


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """How to read a dataset.

    Attributes:
        read: Parses a row; None omits it.
        is_benchmark: Whether it was published for evaluation rather than training.
        published: Patterns of the published files.
    """

    read: Callable[[Row], JudgedRow | None]
    is_benchmark: bool
    published: tuple[str, ...] = ()


_KINDS = {
    "vl_rewardbench": _Kind(
        read=vl_rewardbench_row,
        is_benchmark=True,
        published=("data/test-*.parquet", "test-*.parquet", "data.jsonl"),
    ),
    "llava_critic": _Kind(
        read=llava_critic_row, is_benchmark=False, published=("pairwise/train-*.parquet", "train-*.parquet")
    ),
    "mm_ifeval": _Kind(read=mm_ifeval_row, is_benchmark=True),
    "armbench_vl": _Kind(read=armbench_row, is_benchmark=True, published=(RELEASED,)),
    "judged": _Kind(read=judged_row, is_benchmark=False),
    "pairs": _Kind(read=own_pair, is_benchmark=False),
}

DATASETS = tuple(_KINDS)


def judging_dataset(
    kind: str,
    folder: str | Path,
    *,
    reverse_order: bool = False,
    is_benchmark: bool | None = None,
    train_on_all: bool = False,
) -> DatasetSource:
    """Opens a local copy of a dataset.

    Args:
        kind: One of `DATASETS`.
        folder: Folder of the copy.
        reverse_order: Whether candidates are shown in the opposite order, even for ids that name the other
            one. By default each row uses the order in its id.
        is_benchmark: True puts all rows into the split `test`. False splits them by a hash of their image, or
            of their text if they have none, so that some can be used for training. None uses the default of
            the dataset: all but `llava_critic`, `judged` and `pairs` are benchmarks.
        train_on_all: Whether to put all rows into the split `train`.

    Returns:
        A source of its rows.

    Raises:
        ConfigError: If the kind, folder, or file does not exist, `is_benchmark` is combined with
            `train_on_all`, or every row is broken. If only some rows are broken, they are omitted, counted,
            and reported with file and row.
    """
    known = _KINDS[require_choice("dataset", kind, DATASETS)]
    whole = whole_split(kind, known.is_benchmark, is_benchmark=is_benchmark, train_on_all=train_on_all)

    def load() -> DatasetSource:
        root = FileRoot(folder, follows_links=True)
        files = files_of(root, kind, known.published)
        rows = tuple(read_rows((row for file in files for row in rows_of(root, file)), known.read))
        listed, others = (
            [*shown_rows(root, rows, whole_split=whole, is_reversed=order)]
            for order in (reverse_order, not reverse_order)
        )
        unlisted = {
            other.key: row if reverse_order else other
            for row, other in zip(listed, others, strict=True)
            if isinstance(row, ShownRow) and isinstance(other, ShownRow)
        }
        is_whole = whole == "test"
        return DatasetSource(kind, listed, unlisted=unlisted, is_benchmark=is_whole, train_on_all=train_on_all)

    return shared(kind, folder, load, reverse_order, whole)
