"""A server that dies in the middle of a board and comes back."""

import json
import subprocess
import time

import pytest

from tests.vllm.boards import GREEDY, command, episodes_of, played, responses
from tests.vllm.server import CHECKOUT

NUM_LEVELS = 48


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.timeout(1500)
def test_a_board_goes_on_where_a_dead_server_left_it(serve, reach, tmp_path):
    out, agent = tmp_path / "board", None
    with serve() as server:
        # Few at a time, so that the server dies among them
        agent = f"{reach(server)['/v1/chat/completions']},{GREEDY},max_attempts=2,timeout_s=30,max_parallel=2"
        run = subprocess.Popen(command(out, [agent], NUM_LEVELS), cwd=CHECKOUT, stderr=subprocess.PIPE)
        while len(before := lines(out / "episodes.jsonl")) < 10:
            assert run.poll() is None, run.stderr.read().decode()[-2000:]
            time.sleep(0.05)
        server.kill()
        _, told = run.communicate(timeout=600)
        assert run.returncode == 1 and b"The same command tries again" in told
        failed = [line for line in lines(out / "episodes.jsonl") if line["error"]]
        assert failed and len(failed) < NUM_LEVELS
        assert all("no connection" in line["error"] for line in failed), {line["error"] for line in failed}
        server.start()
        (whole,) = played(out, [agent], NUM_LEVELS).values()
        assert len(whole) == NUM_LEVELS and not any(episode["error"] for episode in whole.values())
        kept = [line["seed"] for line in lines(out / "episodes.jsonl") if not line["error"]]
        assert len(kept) == len({*kept}) == NUM_LEVELS  # Nothing was played twice
        assert [line["seed"] for line in before if not line["error"]] == kept[: len(before)]
        (undisturbed,) = played(tmp_path / "undisturbed", [agent], NUM_LEVELS).values()
    assert {seed: responses(episode) for seed, episode in whole.items()} == {
        seed: responses(episode) for seed, episode in undisturbed.items()
    }
    assert episodes_of(out).keys() == episodes_of(tmp_path / "undisturbed").keys()
