"""What samples for several processes, here threads, has the same weights in all of them, or they end together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from agents.vllm.vllm_config import SamplerLostError
from tests.unit.agents.vllm.engines import FakeEngine
from training.errors import PeerError, SamplersLostError
from training.loop.rollout_agents import SyncedSampler

WEIGHTS = {"head": torch.ones(2)}


class Threads:
    """Engines of so many processes, each a thread."""

    def __init__(self, num_processes: int) -> None:
        self.barrier, self.items = threading.Barrier(num_processes, timeout=10), [[]] * num_processes
        self.engines = [type("Engine", (), {"rank": rank, "gather": self._gather(rank)})() for rank in range(2)]

    def _gather(self, rank):
        def gather(_, items):
            self.items[rank] = list(items)
            self.barrier.wait()
            gathered = [item for part in self.items for item in part]
            self.barrier.wait()
            return gathered

        return gather

    def each(self, do):
        """Returns what each of them comes to, or the error that ends it."""

        def tried(engine):
            try:
                return do(engine)
            except Exception as error:
                return error

        with ThreadPoolExecutor(2) as pool:
            return [*pool.map(tried, self.engines)]


class Server(FakeEngine):
    """May be gone."""

    is_gone = False

    def load(self, weights, version):
        if self.is_gone:
            raise SamplerLostError("No vLLM server answers.")
        super().load(weights, version)

    def adopt(self, version):
        self.version = version


@pytest.fixture
def threads():
    return Threads(2)


def made(threads, servers, gives):
    """Returns both processes' samplers."""
    return threads.each(
        lambda engine: SyncedSampler(lambda: servers[engine.rank], engine, gives=gives[engine.rank])  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("gives", [(True, True), (True, False)])
def test_all_sample_with_what_the_main_process_calls_its_weights(threads, gives):
    servers = [Server(0), Server(0)]
    samplers = made(threads, servers, gives)
    assert threads.each(lambda engine: samplers[engine.rank].load(WEIGHTS, f"of {engine.rank}")) == [None, None]
    assert [each.version for each in (*samplers, *servers)] == ["of 0"] * 4
    assert [len(server.loaded) for server in servers] == [int(each) for each in gives]


@pytest.mark.parametrize("gone", [0, 1])
def test_where_one_cannot_be_given_its_weights_all_end_alike(threads, gone):
    servers = [Server(0), Server(0)]
    samplers = made(threads, servers, (True, True))
    servers[gone].is_gone = True
    errors = threads.each(lambda engine: samplers[engine.rank].load(WEIGHTS, "new"))
    assert [type(error) for error in errors] == [SamplersLostError] * 2
    assert {str(error) for error in errors} == {f"Process {gone}: No vLLM server answers."}


def test_where_one_cannot_be_made_the_others_do_not_wait_for_it(threads):
    servers = [Server(0), Server(0)]

    def make(engine):
        if engine.rank == 1:
            raise SamplerLostError("No vLLM server answers.")
        return servers[0]

    other, own = threads.each(lambda engine: SyncedSampler(lambda: make(engine), engine, gives=True))
    assert isinstance(own, SamplerLostError) and isinstance(other, PeerError)
    assert str(other) == "Process 1: No vLLM server answers." and servers[0].is_closed
