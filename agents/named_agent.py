"""Agents as command lines name them: `NAME`, or `NAME,SETTING=VALUE,...`."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from vlm_envs.cli.named_worlds import parse_settings, split_settings
from vlm_envs.validation import require

TITLE = "as="


class NamedAgent(NamedTuple):
    """An agent's name and settings.

    Attributes:
        name: As `make_agent` takes it.
        settings: Settings by name.
        title: What to call it; empty if the text has no `as=`.
    """

    name: str
    settings: dict[str, Any]
    title: str

    @classmethod
    def parse(cls, text: str, *, option: str) -> Self:
        """Returns the parts of `openai:gpt-4.1,history=last_images:4,temperature=0,as=four images`.

        Args:
            text: The text.
            option: What messages call it.

        Raises:
            ConfigError: If a setting is not NAME=VALUE, or `as=` has no name or appears twice.
        """
        name, settings = split_settings(text, ",")
        values = parse_settings([setting for setting in settings if not setting.startswith(TITLE)], option=option)
        titles = [setting.removeprefix(TITLE).strip() for setting in settings if setting.startswith(TITLE)]
        require(all(title.isprintable() and title for title in titles[:1]), f"{option} {text}: {TITLE} needs a name.")
        require(len(titles) < 2, f"{option} {text}: {TITLE} is there twice.")
        return cls(name, values, next(iter(titles), ""))
