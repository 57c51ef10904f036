"""A fake endpoint and clients of it."""

import contextlib

import pytest

from agents.api.client import ChatClient
from agents.api.endpoint_config import EndpointConfig
from tests.unit.agents.api.clocks import FakeClock
from tests.unit.agents.api.endpoint import FakeEndpoint

KEY = "sk-only-for-tests"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """A key, and no proxy that would stand between a test and loopback."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("JUDGE_KEY", KEY)


@pytest.fixture
def endpoint():
    with FakeEndpoint() as server:
        yield server


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def make_client(endpoint, clock):
    """Makes clients of the fake endpoint; keyword arguments change the configuration."""
    with contextlib.ExitStack() as stack:

        def make(*, real_time=False, **changes):
            settings = {"model": "judge", "base_url": endpoint.base_url, "api_key_variable": "JUDGE_KEY", **changes}
            return stack.enter_context(ChatClient(EndpointConfig(**settings), clock=None if real_time else clock))

        yield make


@pytest.fixture
def client(make_client):
    return make_client()


@pytest.fixture
def prices_of(tmp_path):
    """Writes tables of prices for the model `judge`: US dollars for a million tokens."""

    def write(prompt, completion=0.0, model="judge"):
        path = tmp_path / "prices.toml"
        path.write_text(f'[models]\n"{model}" = {{ prompt = {prompt}, completion = {completion} }}\n')
        return path

    return write
