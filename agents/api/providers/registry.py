"""Providers by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.validation import require_choice

if TYPE_CHECKING:
    from agents.api.providers.provider import Connection, Provider


@dataclass(frozen=True, kw_only=True)
class ProviderEntry:
    """How a provider is reached.

    Attributes:
        factory: `module:class`, imported only when it is asked for.
        package: What is imported of pip's.
        api_key_variable: Environment variable that holds the key.
        address_variable: Environment variable by which the provider's package is sent to another address; empty for
            none.
        summary: What it is.
        part: What stands behind its name and a colon.
        settings: Arguments of the class.
    """

    factory: str
    package: str
    api_key_variable: str
    summary: str
    address_variable: str = ""
    part: str = "MODEL"
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


_HERE = "agents.api.providers"

COMPATIBLE = "compatible"
"""The provider that is any server of the user's."""

PROVIDERS: dict[str, ProviderEntry] = {
    "openai": ProviderEntry(
        factory=f"{_HERE}.openai_responses:OpenAIResponses",
        package="openai",
        api_key_variable="OPENAI_API_KEY",
        address_variable="OPENAI_BASE_URL",
        summary="OpenAI's responses",
    ),
    "openai-chat": ProviderEntry(
        factory=f"{_HERE}.openai_chat:OpenAIChat",
        package="openai",
        api_key_variable="OPENAI_API_KEY",
        address_variable="OPENAI_BASE_URL",
        summary="OpenAI's chat completions",
    ),
    "anthropic": ProviderEntry(
        factory=f"{_HERE}.anthropic_messages:AnthropicMessages",
        package="anthropic",
        api_key_variable="ANTHROPIC_API_KEY",
        address_variable="ANTHROPIC_BASE_URL",
        summary="Anthropic's messages",
    ),
    "google": ProviderEntry(
        factory=f"{_HERE}.google_gemini:GoogleGemini",
        package="google.genai",
        api_key_variable="GEMINI_API_KEY",
        address_variable="GOOGLE_GEMINI_BASE_URL",
        summary="Google's Gemini",
    ),
    COMPATIBLE: ProviderEntry(
        factory=f"{_HERE}.openai_chat:OpenAIChat",
        package="openai",
        api_key_variable="OPENAI_API_KEY",
        summary="any server that speaks chat completions",
        part="NAME@URL",
        settings=MappingProxyType({"is_openai": False}),
    ),
}
"""Every provider by the name it is asked for."""


def make_provider(name: str, connection: Connection) -> Provider:
    """Makes a provider's client; nothing is connected yet.

    Raises:
        ConfigError: If there is no such provider.
        EngineUnavailableError: If its package is not installed.
    """
    entry = PROVIDERS[require_choice("provider", name, PROVIDERS)]
    module, _, attribute = entry.factory.partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise EngineUnavailableError(
            f"{name} needs the package {error.name}, which is not installed. Run: {install_command('api')}"
        ) from error
    made: Provider = factory(connection, **entry.settings)
    return made
