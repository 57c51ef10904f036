"""Two training processes, as `accelerate launch` starts them, that share a server: one gives it the weights of both."""

import time

import pytest

from agents.vllm.server_engine import OPTIONS, RECEIVER
from tests.unit.training.engines.several_processes import launched
from tests.vllm.two_processes import ended, metrics, options, require_sampled, trained

ROOM = ("--max-num-seqs", "64", "--max-num-batched-tokens", str(64 * 2048))


@pytest.fixture(scope="module")
def sampling_server(serve):
    with serve(*OPTIONS.split(), *ROOM, "--worker-extension-cls", RECEIVER) as started:
        yield started


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("engine", "rollout"), [("ddp", "barrier"), ("fsdp2", "async")])
def test_both_learn_from_what_it_samples_with_their_weights(engine, rollout, sampling_server, tmp_path):
    how = ("--vllm.url", sampling_server.url, "--engine", engine, "--rollout", rollout)
    how += ("--algorithm.critic.trunk", "own") if engine == "fsdp2" else ()
    require_sampled(trained(tmp_path, *how), tmp_path)


@pytest.mark.timeout(900)
def test_where_it_is_lost_both_end_saved_together_and_go_on_when_it_is_back(sampling_server, tmp_path):
    how = ("--vllm.url", sampling_server.url, "--vllm.wait-s", "2")
    processes = launched(2, *options(tmp_path, *how, num_iterations=500), module="training")
    until = time.monotonic() + 300
    while len(metrics(tmp_path)) < 2:
        assert time.monotonic() < until and all(process.poll() is None for process in processes)
        time.sleep(0.1)
    sampling_server.kill()
    codes, told = ended(processes)
    assert codes == [2, 2], told
    num_done = len(metrics(tmp_path))
    assert f"saved as of {num_done} iterations. Resume with --resume." in told[0], told[0][-2000:]
    assert all("Traceback" not in each for each in told)
    sampling_server.start()
    rows = trained(tmp_path, num_iterations=num_done + 1, resume=True)
    assert [row["iteration"] for row in rows] == [*range(num_done + 1)] and rows[-1]["lost_episodes"] == 0
