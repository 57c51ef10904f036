"""Where worlds of `workers="ray"` look for a cluster, without starting one: `make test-ray` does."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest

import vlm_envs
from vlm_envs.errors import EngineUnavailableError, WorkerError
from vlm_envs.vector import ray_workers
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.ray_workers import RayWorker, connected_ray, import_paths


@pytest.fixture
def init(monkeypatch, tmp_path):
    """Has a Ray of our own imported, and returns what its `init` is called with."""
    called = []
    ray = SimpleNamespace(is_initialized=lambda: False, init=lambda **kwargs: called.append(kwargs))
    monkeypatch.setitem(sys.modules, "ray", ray)
    for name in list(os.environ):
        if name.startswith("RAY_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", dict(os.environ) | {"RAY_TMPDIR": str(tmp_path)})
    return called


def test_worlds_are_imported_without_ray():
    code = "import sys, vlm_envs, vlm_envs.vector.make_vec, training.config.world_spec; print('ray' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_a_missing_package_is_one_line_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineUnavailableError) as caught:
        world_vector("VLM/FrozenLake-v0", 2, workers="ray")
    assert str(caught.value) == "workers='ray' needs Ray. Install it: pip install -e '.[ray]'"


def test_ray_says_nothing_and_reports_nothing_unless_told_to(init):
    connected_ray()
    assert init[0]["log_to_driver"] is init[0]["include_dashboard"] is False
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "1"
    connected_ray()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "1"


@pytest.mark.parametrize("address", ["auto", "local"])
def test_ray_reads_the_names_it_knows(init, monkeypatch, address):
    monkeypatch.setitem(os.environ, "RAY_ADDRESS", address)
    connected_ray()
    assert [each["address"] for each in init] == [None], "Ray reads the variable"


@contextmanager
def listening(says: bytes):
    """Yields the address of a server that says something to whoever speaks to it, and then nothing more."""

    def answer():
        with suppress(OSError):  # of the end
            while True:
                client, _ = server.accept()
                held.append(client)
                if says:
                    client.recv(64)
                    client.sendall(says)

    held = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    for client in held:
        client.close()


SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
OTHERS = {"says nothing": b"", "speaks HTTP/1": b"HTTP/1.1 400 Bad Request\r\n\r\n"}


def test_a_cluster_of_this_machine_is_joined_while_it_answers(init, tmp_path):
    connected_ray()
    (tmp_path / "ray").mkdir()
    with listening(SETTINGS) as address:
        (tmp_path / "ray" / "ray_current_cluster").write_text(address)
        connected_ray()
    connected_ray()
    assert [each["address"] for each in init] == ["local", None, "local"]


@pytest.mark.parametrize("says", OTHERS.values(), ids=OTHERS.keys())
def test_a_port_that_another_program_has_now_is_no_cluster(init, tmp_path, monkeypatch, says):
    monkeypatch.setattr(ray_workers, "_REACH_TIMEOUT_S", 0.5)
    (tmp_path / "ray").mkdir()
    with listening(says) as address:
        (tmp_path / "ray" / "ray_current_cluster").write_text(address)
        connected_ray()
        monkeypatch.setitem(os.environ, "RAY_ADDRESS", address)
        with pytest.raises(EngineUnavailableError, match=rf"at RAY_ADDRESS={address}: .*ray start --head"):
            connected_ray()
    assert [each["address"] for each in init] == ["local"]


def test_an_address_that_nobody_answers_at_is_refused_at_once(init, monkeypatch):
    with listening(SETTINGS) as address:
        monkeypatch.setitem(os.environ, "RAY_ADDRESS", address)
        connected_ray()
        assert len(init) == 1
    with pytest.raises(EngineUnavailableError, match=rf"at RAY_ADDRESS={address}: .*ray start --head"):
        connected_ray()
    assert len(init) == 1


def test_rays_client_is_refused_with_what_to_do(init, monkeypatch):
    monkeypatch.setitem(os.environ, "RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(EngineUnavailableError, match="RAY_ADDRESS=HOST:6379 or by `ray job submit`"):
        connected_ray()
    assert not init


def test_what_ray_finds_wrong_is_told_in_one_error(init, monkeypatch):
    def fail(**kwargs):
        raise ConnectionError("the token is not the cluster's")

    monkeypatch.setattr(sys.modules["ray"], "init", fail)
    with pytest.raises(EngineUnavailableError, match="can be started: the token is not the cluster's"):
        connected_ray()


def test_workers_find_modules_where_their_owner_does_and_installed_ones_at_home(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend("")
    monkeypatch.syspath_prepend(str(tmp_path / "nowhere"))
    paths = import_paths().split(os.pathsep)
    assert paths[:2] == [os.getcwd(), str(tmp_path)]
    assert not any("site-packages" in path or path == os.path.dirname(os.__file__) for path in paths)
    assert len(set(paths)) == len(paths)


def test_the_kinds_of_workers_are_named_where_one_is_mistyped():
    with pytest.raises(vlm_envs.errors.ConfigError, match="'ray'"):
        world_vector("VLM/FrozenLake-v0", 2, workers="rays")


def test_an_actor_that_hangs_when_it_is_connected_to_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr("vlm_envs.vector.ray_workers.START_TIMEOUT_S", 0.2)
    worker = RayWorker(env_fns={0: None}, paths="")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(WorkerError, match=r"environments \[0\] .* within 0\.2 s"):
            worker._reached(silent.getsockname())
        address = silent.getsockname()
    with pytest.raises(ConnectionRefusedError):
        worker._reached(address)
