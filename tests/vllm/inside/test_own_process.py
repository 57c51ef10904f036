"""vLLM in a process of its own, whose weights go through a file. Run in .venv-vllm, by `make test-vllm`.

It is stopped, killed and left behind here as nothing but signals can.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.vllm import keeper
from agents.vllm.vllm_agent import ContinuousVLLMAgent, VLLMAgent, make_engine
from agents.vllm.vllm_config import VLLMConfig
from tests.unit.episodes import play
from tests.vllm.sampling import GREEDY, checkpoint, require_new_weights
from vlm_envs.trajectory import failure_of

CONFIG = VLLMConfig(process="own", memory_fraction=0.1, max_images=4, timeout_s=20.0)
TRAINER = """
from agents.vllm.vllm_agent import VLLMAgent, make_engine
from tests.unit.episodes import play
from tests.vllm.inside.test_own_process import CONFIG, GREEDY, checkpoint
model, encoder = checkpoint()
agent = VLLMAgent(model=model, encoder=encoder, sampling=GREEDY, engine=make_engine(CONFIG, model, encoder, GREEDY))
agent.sync(model, 1)
print("ready", agent.engine._process.pid, agent.engine._folder.name, flush=True)
while True:
    play(agent, range(4), max_turns=(3,))
"""


@pytest.fixture(scope="module")
def tiny():
    return checkpoint()


@pytest.fixture(scope="module")
def engine(tiny):
    made = make_engine(CONFIG, *tiny, GREEDY)
    yield made
    made.close()


def signalled(keeper_pid, number):
    """Sends a signal to all of vLLM's processes, which are all that its keeper has started."""
    (leader,) = (int(child) for child in Path(f"/proc/{keeper_pid}/task/{keeper_pid}/children").read_text().split())
    members = [*keeper.session(leader)]
    assert len(members) >= 2, "a server and what computes for it"
    for pid in members:
        if not keeper.is_tracker(pid):
            os.kill(pid, number)
    return members


def is_over(pid):
    return not keeper.lives(pid)


@pytest.mark.timeout(900)
def test_its_tokens_follow_the_weights_which_take_no_memory_but_its_own(engine, tiny):
    require_new_weights(engine, *tiny)
    assert not list(Path(engine._folder.name).glob("*.safetensors"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [VLLMAgent, ContinuousVLLMAgent])
def test_where_it_is_killed_among_answers_it_costs_what_was_under_way_and_is_started_anew(
    kind, engine, tiny, monkeypatch
):
    agent = kind(model=tiny[0], encoder=tiny[1], sampling=GREEDY, engine=engine)
    agent.sync(tiny[0], 1)
    real, answered = engine.step, []

    def step():
        answers = real()
        if len(answered) < 6 <= len(answered) + len(answers):
            signalled(engine._process.pid, signal.SIGKILL)
        answered.extend(answers)
        return answers

    monkeypatch.setattr(engine, "step", step)
    failures = [failure_of(episode) for episode in play(agent, range(6), max_turns=(3, 1))]
    assert 0 < sum(map(bool, failures)) < 6, failures
    assert all("was lost" in failure for failure in failures if failure)
    monkeypatch.undo()
    agent.sync(tiny[0], 2)
    assert not any(map(failure_of, play(agent, range(2))))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [VLLMAgent, ContinuousVLLMAgent])
def test_where_it_hangs_its_time_ends_and_it_is_started_anew(kind, engine, tiny, monkeypatch):
    agent = kind(model=tiny[0], encoder=tiny[1], sampling=GREEDY, engine=engine)
    agent.sync(tiny[0], 1)
    monkeypatch.setattr(engine._responses, "timeout_s", 3.0)
    stopped, start_s = signalled(engine._process.pid, signal.SIGSTOP), time.monotonic()
    failures = [failure_of(episode) for episode in play(agent, range(6))]
    assert time.monotonic() - start_s < 3 * 3.0
    assert all("no whole reply within 3 s" in failure for failure in failures), failures
    monkeypatch.undo()
    agent.sync(tiny[0], 2)
    assert all(map(is_over, stopped)), "Linux kills the stopped, too"
    assert not any(map(failure_of, play(agent, range(2))))


@pytest.mark.timeout(600)
def test_a_killed_trainer_leaves_nothing_behind(tmp_path):
    before = {*keeper.MEMORY.iterdir()}
    with (tmp_path / "log.txt").open("wb") as log:
        trainer = subprocess.Popen([sys.executable, "-c", TRAINER], stdout=subprocess.PIPE, stderr=log, text=True)
    _, kept, folder = next(line for line in trainer.stdout if line.startswith("ready")).split()
    kept = int(kept)
    time.sleep(2 * keeper.LOOK_EVERY_S)
    (leader,) = Path(f"/proc/{kept}/task/{kept}/children").read_text().split()
    members = [*keeper.session(int(leader))]
    own = keeper.memory_files(members)
    used = {*keeper.MEMORY.iterdir()} - before
    assert own <= used and sum(path.stat().st_size for path in own) > 100 * 2**20, "which nobody else would remove"
    trainer.kill()
    trainer.communicate()
    until = time.monotonic() + 30
    while not all(map(is_over, [kept, *members])) and time.monotonic() < until:
        time.sleep(0.1)
    assert all(map(is_over, [kept, *members]))
    # Another's run may have begun meanwhile: what a process still has is its own, and so is a folder of another name
    left = {path for path in used if path.is_file()} - keeper.memory_files(keeper.processes())
    assert left == set() and not Path(folder).exists()
