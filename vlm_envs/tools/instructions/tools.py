"""The 19 checks as tools of a registry: a named text goes in, `Check result: True` or `False` comes out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from vlm_envs.tools.instructions.checkers import CHECKERS, Checker
from vlm_envs.tools.instructions.profiles import ARM, Profile, profile_named
from vlm_envs.tools.registry import Tool, ToolOutput
from vlm_envs.tools.stores import Memory


def checker_tools(profile: str | Profile = ARM, checks: Collection[str] = tuple(CHECKERS)) -> tuple[Tool[Any], ...]:
    """Returns checks as tools, all 19 by default.

    Each takes the arguments of its check and `response`, the name of a stored text, and answers whether the text
    passes and nothing else (ARM-Thinker, appendix E).

    Args:
        profile: Which definition they check by.
        checks: Names of the checks.

    Raises:
        ConfigError: If there is no such profile.
    """
    definition = profile_named(profile)

    def tool(checker: Checker[Any]) -> Tool[Any]:
        def run(arguments: Any, memory: Memory) -> ToolOutput:
            text = memory.texts_map[arguments.response]
            return ToolOutput(f"{checker.check(text, arguments, profile=definition).tool_text}.")

        return Tool(name=checker.name, description=checker.description, arguments=checker.tool_arguments, run=run)

    return tuple(tool(checker) for name, checker in CHECKERS.items() if name in checks)
