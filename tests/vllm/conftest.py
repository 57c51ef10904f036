"""The server, and what official packages need to find it. `make test-vllm` runs these tests."""

import pytest

from tests.vllm.server import PYTHON, VLLMServer


@pytest.fixture(scope="session")
def serve(tmp_path_factory):
    """Makes servers, with further options of their command line; not started yet."""
    if not PYTHON.is_file():
        pytest.skip("needs vLLM in .venv-vllm: make test-vllm")

    def make(*options):
        return VLLMServer(tmp_path_factory.mktemp("server") / "log.txt", *options)

    return make


@pytest.fixture(scope="session")
def server(serve):
    with serve() as started:
        yield started


@pytest.fixture
def reach(monkeypatch):
    """Points the official packages at a server, as their users do, and returns an agent of each interface for it."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    def point(server):
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        return {
            "/v1/chat/completions": f"compatible:tiny@{server.url}/v1",
            "/v1/responses": "openai:tiny",
            "/v1/messages": "anthropic:tiny",
        }

    return point
