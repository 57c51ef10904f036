"""Whom connections trust: the authorities of this machine, which are read once and not by every client anew."""

from __future__ import annotations

import functools
import os
import ssl

import httpx2

_NAMED_BY = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def trusted(*, trust_env: bool = True) -> ssl.SSLContext:
    """Returns the context that `httpx2` would make, the same one for all clients: making one takes a tenth of a second.

    Args:
        trust_env: Whether the environment may name other authorities.
    """
    return _trusted(trust_env, *(os.environ.get(name) for name in _NAMED_BY))


@functools.cache
def _trusted(trust_env: bool, *_named: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=trust_env)
