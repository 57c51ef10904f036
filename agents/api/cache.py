"""Readable replies on disk, each under the hash of what was asked.

    <cache_dir>/3f/3fa9….json    {"key": "3fa9…", "reply": "<answer>YES</answer>"}

Several processes may share a folder: an entry appears whole or not at all, and two that write the same one write
equally good ones. Whatever cannot be read as an entry counts as absent and is replaced by the next reply.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vlm_envs.errors import ConfigError

_CACHE_LOG = logging.getLogger(__name__)
_VERSION = 2
_MAX_ENTRY_BYTES = 4 * 2**20


def cache_key(request: Mapping[str, Any], sample: int = 0) -> str:
    """Returns the SHA-256 of everything that decides a reply.

    The endpoint's address is not part of it, as the same model moves between machines; two models that answer
    differently need different names, or folders.

    Args:
        request: As the provider's `request` writes it: model, conversation, pictures included, sampling.
        sample: Which of several replies to the same question is meant.

    Returns:
        64 hexadecimal digits.
    """
    asked = {"version": _VERSION, "request": request, "sample": sample}
    text = json.dumps(asked, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ReplyCache:
    """The replies in one folder.

    Raises:
        ConfigError: It cannot be made or is no folder.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"Cannot use {str(folder)!r} as cache_dir: {error}. Name a folder.") from error
        self._folder = folder

    def get(self, key: str) -> str | None:
        """Returns the reply kept under a key, or None where there is none that can be read."""
        try:
            with self._path(key).open("rb") as file:
                content = file.read(_MAX_ENTRY_BYTES + 1)
            entry = json.loads(content) if len(content) <= _MAX_ENTRY_BYTES else None
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(entry, dict) or entry.get("key") != key:
            return None
        reply = entry.get("reply")
        return reply if isinstance(reply, str) else None

    def put(self, key: str, reply: str) -> None:
        """Keeps a reply; a disk that takes none is logged, as the reply in hand is still good."""
        path = self._path(key)
        entry = json.dumps({"key": key, "reply": reply})
        temporary = None
        try:
            path.parent.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
                temporary = file.name
                file.write(entry)
            os.replace(temporary, path)
        except OSError as error:
            _CACHE_LOG.warning("A judge's reply was not cached in %s: %s", self._folder, error)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
