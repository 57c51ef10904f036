"""Untrained policies, as `python -m benchmarks sb3` saves trained ones."""

from __future__ import annotations

import pytest

from tests.unit.agents.sb3.policies import LAKE, save_policy


@pytest.fixture(scope="session")
def policy_directory(tmp_path_factory):
    """A policy for the frozen lake, three actions a response, pictures at a quarter of their sides."""
    return save_policy(tmp_path_factory.mktemp("sb3") / "policy", LAKE)
