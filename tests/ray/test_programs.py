"""Whole programs with worlds on Ray: what they print, Ctrl-C, a kill, a machine that is gone."""

import signal

import psutil
import pytest

from tests.ray.processes import actors, program, wait_until

WORLD = """
import functools, logging, os, signal, sys, threading, time
import gymnasium as gym
from vlm_envs.vector.vector_world import VectorWorld
from vlm_envs.vector.ray_workers import connected_ray

logging.basicConfig(format="%(levelname)s %(message)s")

class Sleeper(gym.Env):
    '''Sleeps as long as it is told, and is noisy.'''
    observation_space, action_space = gym.spaces.Dict({"text": gym.spaces.Text(9)}), gym.spaces.Text(9)
    metadata = {"render_modes": []}

    def reset(self, *, seed=None, options=None):
        print("a world prints")
        print("a world complains", file=sys.stderr)
        return {"text": "x"}, {}

    def step(self, action):
        time.sleep(float(action))
        return {"text": action}, 1.0, False, False, {"type": Sleeper}
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program behind `WORLD`, and returns what it printed."""

    def finished(code):
        started = program(tmp_path / "main.py", WORLD + code)
        printed, told = started.communicate(timeout=120)
        assert started.returncode == 0, told
        return printed.splitlines(), told.splitlines()

    return finished


def test_a_killed_actor_is_all_the_console_tells_of(run):
    printed, told = run("""
with VectorWorld([Sleeper] * 2, workers="ray", num_workers=2) as worlds:
    worlds.reset()
    *_, infos = worlds.step(["0", "0"])
    print(infos["env"][0]["type"] is Sleeper)
    os.kill(worlds.apply({0: lambda world: os.getpid()})[0], signal.SIGKILL)
    print(worlds.step(["0", "0"])[3].tolist())
    worlds.reset()
    print(worlds.step(["0", "0"])[3].tolist())
    time.sleep(2)  # Ray tells of a death a little later
""")
    assert printed == ["True", "[True, False]", "[False, False]"]
    assert len(told) == 2
    assert all(line.startswith("WARNING") and "The ray worker of environments [0] at " in line for line in told)


def test_ctrl_c_is_left_to_the_owner(run):
    printed, told = run("""
worlds = VectorWorld([Sleeper] * 2, workers="ray", num_workers=2)
worlds.reset()
default = signal.signal(signal.SIGINT, lambda *_: print("interrupted"))
os.killpg(0, signal.SIGINT)  # as a terminal does
time.sleep(0.5)
print(worlds.step(["0.1", "0"])[3].tolist())
signal.signal(signal.SIGINT, default)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
start_s = time.monotonic()
try:
    worlds.step(["60", "0"])
except KeyboardInterrupt:
    print("interrupted")
worlds.close()
print(time.monotonic() - start_s < 20)
""")
    assert (printed, told) == (["interrupted", "[False, False]", "interrupted", "True"], [])


def test_worlds_go_on_in_another_cluster_when_theirs_is_left(run):
    printed, _ = run("""
import ray
worlds = VectorWorld([Sleeper] * 2, workers="ray", num_workers=2)
worlds.reset()
ray.shutdown()
print(worlds.step(["0", "0"])[3].tolist())
worlds.reset()
print(worlds.step(["0", "0"])[3].tolist())
ray.shutdown()
worlds.close()
print(ray.is_initialized())
""")
    assert printed == ["[True, True]", "[False, False]", "False"]


def test_a_killed_owner_leaves_no_world_behind(tmp_path):
    owner = program(
        tmp_path / "main.py",
        WORLD
        + """
worlds = VectorWorld([Sleeper] * 2, workers="ray", num_workers=2)
worlds.reset()
print("ready", flush=True)
worlds.step(["100", "100"])
""",
    )
    assert owner.stdout.readline() == "ready\n"
    left = actors(psutil.Process(owner.pid))
    assert len(left) == 2
    owner.send_signal(signal.SIGKILL)
    owner.communicate(timeout=60)
    assert wait_until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in left))


def test_a_machine_that_is_gone_costs_its_episodes_only(run):
    """Two nodes of a cluster on this machine; the second is killed with all that runs on it."""
    printed, _ = run("""
import psutil, ray
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
second = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
os.environ["RAY_ADDRESS"] = cluster.address
while connected_ray().cluster_resources().get("CPU") != 2:
    time.sleep(0.1)
node = lambda world: ray.get_runtime_context().get_node_id()
pid = lambda world: os.getpid()
for _ in range(20):  # Ray spreads actors as well as it can, and may still find one node good enough for all
    worlds = VectorWorld([Sleeper] * 4, workers="ray")
    nodes = worlds.apply(dict.fromkeys(range(4), node))
    if len(set(nodes.values())) == 2:
        break
    worlds.close()
with worlds:
    worlds.reset()
    there = [i for i in range(4) if nodes[i] == second.node_id]
    print('>', len(set(nodes.values())), len(there))
    doomed = {pid for i, pid in worlds.apply(dict.fromkeys(there, pid)).items()}
    cluster.remove_node(second, allow_graceful=False)
    for each in doomed:
        if psutil.pid_exists(each):
            os.kill(each, signal.SIGKILL)
    *_, truncated, infos = worlds.step(["0"] * 4)
    print('>', [i for i in range(4) if truncated[i]] == there)
    worlds.try_reset()
    print('>', worlds.step(["0"] * 4)[3].any())
    print('>', set(worlds.apply(dict.fromkeys(range(4), node)).values()) == set(nodes.values()) - {second.node_id})
ray.shutdown()
cluster.shutdown()
""")
    assert [line for line in printed if line.startswith(">")] == ["> 2 2", "> True", "> False", "> True"]
