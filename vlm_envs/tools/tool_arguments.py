"""Arguments of tools: pydantic models, their JSON schema, and explanations of invalid arguments."""

from __future__ import annotations

from typing import Any

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, quoted
from vlm_envs.validation import did_you_mean

try:
    from pydantic import (
        AfterValidator,
        BaseModel,
        BeforeValidator,
        ConfigDict,
        Field,
        ValidationError,
        WithJsonSchema,
        create_model,
        model_validator,
    )
except ImportError as error:
    raise EngineUnavailableError(
        f"Tools need the package pydantic, which cannot be imported ({error}). Install it with "
        f"{install_command('tools')}"
    ) from error

__all__ = [
    "WHOLE_NUMBER",
    "AfterValidator",
    "Arguments",
    "BaseModel",
    "BeforeValidator",
    "Field",
    "WithJsonSchema",
    "create_model",
    "json_schema",
    "model_validator",
    "read_arguments",
]

_MAX_FAULTS = 3
"""Maximum number of errors explained in one message."""


_MOST_EXACT = 2.0**53
"""Above this, not every integer has an exact float."""


def _whole(value: Any) -> Any:
    """Converts an integral float to an int; returns anything else unchanged."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= _MOST_EXACT
    return int(value) if is_whole else value


WHOLE_NUMBER = BeforeValidator(_whole)
"""Makes an `int` field accept 3.0 as 3, but not 3.5. Must be last in the field's annotation."""


class Arguments(BaseModel):
    """Base of every tool's arguments: strict types, no unknown fields, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def json_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Returns the JSON schema of a tool's arguments, without the titles that pydantic generates."""
    schema = _without_titles(arguments.model_json_schema())
    schema.pop("description", None)  # the class docstring; the tool has its own description
    return schema


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Removes the `title` keywords from a schema, but not properties with that name."""
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in ("properties", "$defs"):
            result[keyword] = {name: _without_titles(inner) for name, inner in value.items()}
        elif keyword == "title":
            continue
        elif isinstance(value, dict):
            result[keyword] = _without_titles(value)
        elif isinstance(value, list):
            result[keyword] = [_without_titles(item) if isinstance(item, dict) else item for item in value]
        else:
            result[keyword] = value
    return result


def read_arguments(tool: str, model: type[BaseModel], values: dict[str, Any]) -> BaseModel:
    """Validates a tool's arguments.

    Args:
        tool: The tool's name, for messages.
        model: The expected model.
        values: The given arguments.

    Returns:
        An instance of `model`.

    Raises:
        ToolError: `UNKNOWN_ARGUMENT`, `MISSING_ARGUMENT` or `WRONG_ARGUMENT`, the first that applies; the
            message explains the first errors of any kind.
    """
    try:
        return model.model_validate(values, strict=True)
    except ValidationError as error:
        faults = [_fault(detail, model) for detail in error.errors(include_url=False, include_context=False)]
    order = [ToolErrorKind.UNKNOWN_ARGUMENT, ToolErrorKind.MISSING_ARGUMENT, ToolErrorKind.WRONG_ARGUMENT]
    kind = min((kind for kind, _ in faults), key=order.index)
    sentences = [sentence for _, sentence in faults[:_MAX_FAULTS]]
    if len(faults) > _MAX_FAULTS:
        sentences.append(f"There are {len(faults) - _MAX_FAULTS} more faults.")
    expected = ", ".join(
        name if field.is_required() else f"{name} (optional)" for name, field in model.model_fields.items()
    )
    raise ToolError(kind, f"{' '.join(sentences)} Arguments of {tool}: {expected or 'none'}.")


def _fault(detail: Any, model: type[BaseModel]) -> tuple[ToolErrorKind, str]:
    """Converts one of pydantic's errors to a kind and a sentence."""
    place = ".".join(quoted(part)[1:-1] if isinstance(part, str) else str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        hint = did_you_mean(str(detail["loc"][-1])[:100], model.model_fields)
        return ToolErrorKind.UNKNOWN_ARGUMENT, f"There is no argument {quoted(place)}.{hint}"
    if detail["type"] == "missing":
        return ToolErrorKind.MISSING_ARGUMENT, f"The argument {place} is missing."
    message = str(detail["msg"])[:200].replace("<", "‹").replace(">", "›")
    return ToolErrorKind.WRONG_ARGUMENT, f"{place or 'The arguments'}: {message}; got {quoted(detail['input'])}."
