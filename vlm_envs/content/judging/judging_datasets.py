"""Judged responses from a user's local copy of public data, or from pairs of one's own; nothing is downloaded.

| kind | file in the folder | what a row has |
|---|---|---|
| `vl_rewardbench` | `data/test-*.parquet`, `data.jsonl` | `id`, `query`, `response` (two), `human_ranking`, `image` |
| `llava_critic` | `pairwise/train-*.parquet` | `id`, `image`, `conversations` of a comparison and its verdict |
| `mm_ifeval` | | `id`, `image`, `question`, `constraints`, and a model's `prediction` |
| `armbench_vl` | its three `.jsonl` files | `idx`, `rm_tag`, `question`, `preds`, `gt`, `images` or `doc_id` |
| `pairs` | | `prompt`, `chosen`, `rejected`, `image` where there is one |

A file `<kind>.jsonl` (a row a line), `<kind>.json` (a list of rows) or `<kind>.parquet` comes before the files that a
data set is published in. An `image` is a file of the folder, base64, or in the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from vlm_envs.content.judging.judging_cases import NUM_CANDIDATES, TRACKS
from vlm_envs.content.judging.preference_rows import (
    DataFolder,
    FileRow,
    JudgedRow,
    ShownRow,
    is_file_name,
    judged_each,
    shown_rows,
)
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import IMAGE_MARK, TableImage, media_fault, row_image, without_marks
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError
from vlm_envs.qa.datasets.dataset_source import DatasetSource
from vlm_envs.qa.datasets.dataset_splits import shared, whole_split
from vlm_envs.tools.instruction_checkers import Checker, Constraint, checker_named
from vlm_envs.tools.text_profiles import MM_IFENGINE
from vlm_envs.tools.tool_arguments import BaseModel
from vlm_envs.tools.tool_errors import quoted
from vlm_envs.validation import require_choice


def mm_ifeval_rows(data: DataFolder) -> tuple[JudgedRow | BrokenRowError, ...]:
    """Returns the predictions on MM-IFEval that rules can judge, one response each.

    Fields: `id`, `question` (the whole prompt, as in the table of VLMEvalKit) or `instruction` (as in MM-IFEngine's own
    files, to which the constraints' texts are added as its evaluation adds them), `constraints` (a list, or a text that
    is JSON of one), `image` or `image_path`, and `prediction`, the response of the model that was run on it (MM-IFEval
    itself has none; evaluation tools add that column). A constraint is `{"key", "value", "judge"}` with
    `judge` such as `{"method": "rule_based", "verify_funcs": [{"func": …, "params": […]}]}`. Rows with a constraint
    that only a model can judge are left out, as are those of other `tag`s than `C-Level` and of other `infer_type`s
    than `main`. Right is what passes every check in the definition of MM-IFEngine. Not run on the original data here.

    Raises:
        ConfigError: If there is not one row that rules can judge, or that is broken.
    """
    rows = tuple(judged_each(data.rows(), _checked_row))
    if not rows:
        raise ConfigError(f"{data.files[0]} has no row whose constraints are all 'rule_based'.")
    return rows


def _checked_row(row: FileRow) -> JudgedRow | None:
    if row.values.get("tag", "C-Level") != "C-Level" or row.values.get("infer_type", "main") != "main":
        return None
    listed = _constraints(row)
    if not all(item["judge"].get("method") == "rule_based" for item in listed):
        return None
    if "prediction" not in row.values:
        raise row.broken(
            "the field 'prediction' is missing: run a model on MM-IFEval and add its response to each row."
        )
    constraints = [_constraint(row, call) for item in listed for call in _calls(row, item["judge"])]
    response = row.get("prediction", str)
    failed = [item for item in constraints if not item.check(response, profile=MM_IFENGINE).passed]
    return JudgedRow(
        where=row.where,
        row_id=str(row.get("id", (str, int))),
        track="instruction_following",
        category=f"mm_ifeval_{failed[0].checker if failed else 'right'}",
        request=_request(row, listed),
        responses=(response,),
        right=None if failed else 0,
        image=row_image(row.values, row.where) or "",
    )


def _request(row: FileRow, constraints: list[dict[str, Any]]) -> str:
    """Returns the whole prompt; where a row holds it in parts, the instruction and what each constraint says."""
    if "question" in row.values or "instruction" not in row.values:
        return without_marks(row.text("question"))
    said = [item["value"] for item in constraints if isinstance(item.get("value"), str) and item["value"].strip()]
    if len(said) < len(constraints):
        raise row.broken("a constraint's 'value' is the text that asks for it, beside an 'instruction' that does not.")
    return " ".join((without_marks(row.text("instruction")), *said))


def _constraints(row: FileRow) -> list[dict[str, Any]]:
    """Returns the constraints of a row, which may be JSON within JSON."""
    value = row.get("constraints", (list, str))
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise row.broken(f"'constraints' is a text that is no JSON: {error}.") from error
    if not isinstance(value, list) or not value:
        raise row.broken("'constraints' must be a list of at least one constraint.")
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("judge"), dict):
            raise row.broken("a constraint is an object with 'key', 'value' and 'judge'.")
        if not isinstance(method := item["judge"].get("method"), str):
            raise row.broken(f"'method' of a 'judge' is a text such as 'rule_based'; got {quoted(method)}.")
    return value


def _calls(row: FileRow, judge: Mapping[str, Any]) -> list[Any]:
    """Returns what a rule calls; without a call there is no rule, and every response would pass it."""
    calls = judge.get("verify_funcs")
    if not isinstance(calls, list) or not calls:
        raise row.broken(f"'verify_funcs' must be a list of at least one call; got {quoted(calls)}.")
    return calls


def _constraint(row: FileRow, call: Any) -> Constraint:
    """Returns a call of one of MM-IFEngine's functions as a constraint; its parameters come in order."""
    if not isinstance(call, dict) or not isinstance(call.get("func"), str):
        raise row.broken("an entry of 'verify_funcs' is an object with 'func' and 'params'.")
    try:
        checker = checker_named(call["func"])
        return Constraint.of(checker.name, **_named(checker, call.get("params", [])))
    except ValueError as error:  # ConfigError and pydantic's ValidationError both are.
        raise row.broken(f"{call['func'][:80]} cannot be called: {error}") from error


def _named(checker: Checker[Any], params: Any) -> dict[str, Any]:
    """Returns parameters by name.

    Raises:
        ValueError: If there are more or fewer than the check takes.
    """
    model: type[BaseModel] = checker.arguments
    names = list(model.model_fields)
    if not isinstance(params, list) or len(params) != len(names):
        raise ValueError(f"it takes {', '.join(names) or 'no parameters'}; got {params!r}")
    return dict(zip(names, params, strict=True))


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


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """How a data set is read.

    Attributes:
        read: Reads its rows.
        is_benchmark: Whether it was published to measure with, not to train on.
        published: Patterns of the files it was published in.
    """

    read: Callable[[DataFolder], Iterable[JudgedRow | BrokenRowError]]
    is_benchmark: bool
    published: tuple[str, ...] = ()


_KINDS = {
    "vl_rewardbench": _Kind(
        read=vl_rewardbench_rows,
        is_benchmark=True,
        published=("data/test-*.parquet", "test-*.parquet", "data.jsonl"),
    ),
    "llava_critic": _Kind(
        read=llava_critic_rows, is_benchmark=False, published=("pairwise/train-*.parquet", "train-*.parquet")
    ),
    "mm_ifeval": _Kind(read=mm_ifeval_rows, is_benchmark=True),
    "armbench_vl": _Kind(read=armbench_rows, is_benchmark=True, published=(RELEASED,)),
    "judged": _Kind(read=judged_rows, is_benchmark=False),
    "pairs": _Kind(read=pair_rows, is_benchmark=False),
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
    """Opens a local copy of a data set.

    Args:
        kind: One of `DATASETS`.
        folder: Where the copy is.
        reverse_order: Whether the candidates come in the opposite order, in rows of the other order's ids, too. Without
            it a row comes in the order that its id says.
        is_benchmark: Whether all rows are in the split `test`; False divides them by a hash of their picture, or of
            their text where they have none, so that one can train on them. None for what the data set is: all but
            `llava_critic`, `judged` and `pairs` are benchmarks.
        train_on_all: Whether all rows are in the split `train`.

    Returns:
        A source of its rows.

    Raises:
        ConfigError: If there is no such kind, folder or file, `is_benchmark` comes beside `train_on_all`, or every row
            is broken. Some broken ones are left out, named with file and row, and counted.
    """
    known = _KINDS[require_choice("dataset", kind, DATASETS)]
    whole = whole_split(kind, known.is_benchmark, is_benchmark=is_benchmark, train_on_all=train_on_all)

    def load() -> DatasetSource:
        data = DataFolder(folder, kind, known.published)
        rows = tuple(known.read(data))
        listed, others = (
            [*shown_rows(data, rows, whole_split=whole, is_reversed=order)]
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
