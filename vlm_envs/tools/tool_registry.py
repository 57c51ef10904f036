"""The registry of tools: their descriptions in a prompt, and calls that never raise because of a model's text.

A tool is a name, a description, a pydantic model of its arguments, and a function of arguments and memory. A
call is `{"name": …, "arguments": {…}}`. Any mistake in it gives a result that is not `ok`, with a kind for
programs and a sentence for the model (ARM-Thinker, appendix E: an OpenAI-style function schema for every
tool).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar, cast

from vlm_envs.errors import ConfigError
from vlm_envs.responses.extraction import unwrap
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.tool_arguments import BaseModel, json_schema, read_arguments
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, listed, quoted
from vlm_envs.tools.tool_memory import Memory
from vlm_envs.validation import did_you_mean

ArgumentsT = TypeVar("ArgumentsT", bound=BaseModel)
NumberT = TypeVar("NumberT", int, float)


@dataclass(frozen=True)
class ToolOutput:
    """The result of a tool's function.

    Attributes:
        text: Text for the model, in whole sentences.
        images: New images, in order; the registry names and stores them.
    """

    text: str
    images: tuple[Picture, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[ArgumentsT]):
    """A tool.

    Attributes:
        name: Its name in calls.
        description: Its purpose and when to use it, for the model.
        arguments: Model of its arguments.
        run: The tool itself. It may raise `ToolError` to reject a call; no arguments may cause other
            exceptions.
    """

    name: str
    description: str
    arguments: type[ArgumentsT]
    run: Callable[[ArgumentsT, Memory], ToolOutput]

    def schema(self) -> dict[str, Any]:
        """Returns its schema as an OpenAI function."""
        function = {"name": self.name, "description": self.description, "parameters": json_schema(self.arguments)}
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class ToolCall:
    """A call as the model wrote it, with arguments that have not been validated."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """The result of a call.

    Attributes:
        ok: Whether the tool succeeded. Rewards use this, never the text of the transcript.
        text: Text for the model. It quotes untrusted text only briefly and without tags.
        images: New images, in order.
        image_names: Their names in `memory`.
        error: Kind of the error; None if `ok`.
        memory: The memory after the call; unchanged if not `ok`.
    """

    ok: bool
    text: str
    memory: Memory
    images: tuple[Picture, ...] = ()
    image_names: tuple[str, ...] = ()
    error: ToolErrorKind | None = None


def parse_tool_call(text: str) -> ToolCall | ToolError:
    """Parses `{"name": …, "arguments": {…}}`, with exactly these two keys and only white space around it.

    Args:
        text: The text between the tags of a tool call; no text makes this function raise.

    Returns:
        The call, or the error.
    """
    try:
        value = read_json(text)
        if not isinstance(value, dict) or set(value) != {"name", "arguments"}:
            keys = sorted(value) if isinstance(value, dict) else None
            found = f"the keys {listed(keys)}" if keys is not None else f"a {_JSON_TYPES[type(value)]}"
            raise ToolError(
                ToolErrorKind.NOT_A_TOOL_CALL,
                f'A tool call is {{"name": …, "arguments": {{…}}}} with these two keys; got {found}.',
            )
        name, arguments = value["name"], value["arguments"]
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise ToolError(
                ToolErrorKind.NOT_A_TOOL_CALL,
                f'In a tool call "name" is a string and "arguments" is an object; got a {_JSON_TYPES[type(name)]} and '
                f"a {_JSON_TYPES[type(arguments)]}.",
            )
    except ToolError as error:
        return error
    return ToolCall(name, arguments)


def plain_call(text: str) -> str:
    """Normalizes a call for `parse_tool_call`: removes its code fence, and decodes arguments given as JSON text.

    Chat-completions APIs provide the arguments of a call as JSON text. An invalid call is returned unchanged,
    so that the tools report the error. Never raises.
    """
    if isinstance(parse_tool_call(text), ToolCall):
        return text
    bare = unwrap(text)
    try:
        value = read_json(bare)
        if isinstance(value, dict) and isinstance(value.get("arguments"), str):
            bare = json.dumps({**value, "arguments": read_json(value["arguments"])}, ensure_ascii=False)
    except ToolError:
        return text
    return bare if isinstance(parse_tool_call(bare), ToolCall) else text


_JSON_TYPES: dict[type, str] = {
    dict: "JSON object",
    list: "JSON array",
    str: "string",
    int: "number",
    float: "number",
    bool: "truth value",
    type(None): "null",
}


@dataclass(frozen=True)
class ToolRegistry:
    """The tools of a world, by name, in order.

    Attributes:
        tools: The tools.

    Raises:
        ConfigError: If two have the same name.
    """

    tools: tuple[Tool[Any], ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.tools):
            raise ConfigError(f"Tools must have distinct names; got {list(self.names)}.")

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools."""
        return tuple(tool.name for tool in self.tools)

    def with_tools(self, tools: Iterable[Tool[Any]]) -> ToolRegistry:
        """Returns a registry with additional tools."""
        return ToolRegistry((*self.tools, *tools))

    def schemas(self) -> list[dict[str, Any]]:
        """Returns every tool as an OpenAI function."""
        return [tool.schema() for tool in self.tools]

    def prompt(self) -> str:
        """Returns the schemas for a prompt: one JSON object per line."""
        return "\n".join(json.dumps(schema, ensure_ascii=False) for schema in self.schemas())

    def call_text(self, text: str, memory: Memory) -> ToolResult:
        """Executes the text between the tags of a tool call. Never raises for any text.

        Args:
            text: `{"name": …, "arguments": {…}}`, or anything else.
            memory: Images and texts that the call may refer to.
        """
        return self._carry_out(parse_tool_call(text), memory)

    def call(self, name: str, arguments: str, memory: Memory) -> ToolResult:
        """Executes a call whose arguments are JSON text, as in OpenAI's API. Never raises for any text.

        Args:
            name: The tool's name.
            arguments: JSON object of its arguments.
            memory: Images and texts that the call may refer to.
        """
        try:
            values = read_json(arguments)
            if not isinstance(values, dict):
                found = _JSON_TYPES[type(values)]
                raise ToolError(ToolErrorKind.NOT_A_TOOL_CALL, f"Arguments are a JSON object; got a {found}.")
        except ToolError as error:
            return self._carry_out(error, memory)
        return self._carry_out(ToolCall(name, values), memory)

    def _carry_out(self, call: ToolCall | ToolError, memory: Memory) -> ToolResult:
        """Validates the arguments, runs the tool, and stores its images. All errors have the same form."""
        try:
            if isinstance(call, ToolError):
                raise call
            tool = next((tool for tool in self.tools if tool.name == call.name), None)
            if tool is None:
                raise ToolError(
                    ToolErrorKind.UNKNOWN_TOOL,
                    f"There is no tool {quoted(call.name)}.{did_you_mean(call.name[:100], self.names)} "
                    f"Tools: {listed(list(self.names))}.",
                )
            output = tool.run(cast(Any, read_arguments(tool.name, tool.arguments, call.arguments)), memory)
            return _success(output, memory)
        except ToolError as error:
            text = f"Error ({error.kind.value}): {error.message}"
            return ToolResult(ok=False, text=text, error=error.kind, memory=memory)


def _success(output: ToolOutput, memory: Memory) -> ToolResult:
    """Stores a tool's images and appends their names to its text.

    Raises:
        ToolError: `STORE_FULL`; then nothing is stored.
    """
    store, names = memory.imgs_map, []
    for picture in output.images:
        store, name = store.with_observation(picture)
        names.append(name)
    sentence = f" Stored as {', '.join(names)}; tools can be called on it by that name." if names else ""
    memory = replace(memory, imgs_map=store) if names else memory
    return ToolResult(
        ok=True, text=output.text + sentence, images=output.images, image_names=tuple(names), memory=memory
    )


MAX_JSON_CHARS = 20_000
MAX_JSON_DEPTH = 16
MAX_NUMBER_CHARS = 40
"""Maximum length of a number, because parsing an integer takes time quadratic in its digits."""

# An unterminated string is matched to the end of the text, so no character is visited twice
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)


def read_json(text: str) -> Any:
    """Parses a text that is exactly one JSON value.

    Args:
        text: Any string.

    Returns:
        The value; all of its numbers are finite, and all of its strings can be encoded as UTF-8.

    Raises:
        ToolError: `TOO_LARGE` for text, nesting, or numbers beyond the limits, `DUPLICATE_KEY`,
            `MALFORMED_JSON`.
    """
    if len(text) > MAX_JSON_CHARS:
        raise ToolError(
            ToolErrorKind.TOO_LARGE,
            f"The JSON has {len(text)} characters, more than the {MAX_JSON_CHARS} that are read.",
        )
    _check_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=partial(_number, int),
            parse_float=partial(_number, float),
            parse_constant=_refuse_constant,
        )
        # Escapes can encode a lone surrogate, which no text file, log, or tokenizer can represent
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        near = quoted(text[max(0, error.pos - 10) : error.pos + 20])
        raise ToolError(
            ToolErrorKind.MALFORMED_JSON,
            f"This is not JSON: {error.msg} at character {error.pos + 1}, near {near}.",
        ) from error
    except UnicodeEncodeError as error:
        raise ToolError(ToolErrorKind.MALFORMED_JSON, "A string holds half of a surrogate pair.") from error
    return value


def _check_depth(text: str) -> None:
    """Rejects deep nesting before the parser recurses into it."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match.group()
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if depth > MAX_JSON_DEPTH:
            raise ToolError(
                ToolErrorKind.TOO_LARGE, f"The JSON is nested more than {MAX_JSON_DEPTH} deep. Write it flat."
            )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Builds an object, rejecting duplicate keys."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ToolError(ToolErrorKind.DUPLICATE_KEY, f"The key {quoted(key)} is given twice. Give each key once.")
        result[key] = value
    return result


def _number(make: type[NumberT], digits: str) -> NumberT:
    if len(digits) > MAX_NUMBER_CHARS:
        raise ToolError(
            ToolErrorKind.TOO_LARGE, f"A number has {len(digits)} characters, more than the {MAX_NUMBER_CHARS} allowed."
        )
    number = make(digits)
    if not math.isfinite(number):
        raise ToolError(ToolErrorKind.TOO_LARGE, f"The number {quoted(digits)} is too large.")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ToolError(ToolErrorKind.MALFORMED_JSON, f"{name} is no JSON number. Write a finite number.")
