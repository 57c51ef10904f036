"""MM-IFEval: instructions with constraints, and a model's predictions, which the checks themselves judge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vlm_envs.content.judging.datasets.reading import DataFolder, FileRow
from vlm_envs.content.judging.datasets.rows import JudgedRow, judged_each
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import row_image, without_marks
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError
from vlm_envs.tools.instruction_checkers import Checker, Constraint, checker_named
from vlm_envs.tools.text_profiles import MM_IFENGINE
from vlm_envs.tools.tool_arguments import BaseModel
from vlm_envs.tools.tool_errors import quoted


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
