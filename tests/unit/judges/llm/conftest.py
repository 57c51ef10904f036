"""The fake endpoint and the clients of it that the tests of `agents.api` have, too."""

from tests.unit.agents.api.conftest import client, clock, endpoint, environment, make_client, prices_of

__all__ = ["client", "clock", "endpoint", "environment", "make_client", "prices_of"]
