"""The comparison with TRL, with TRL: `make test-peers`."""

import json
import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PYTHON = CHECKOUT / ".venv-peers" / "bin" / "python"
pytestmark = pytest.mark.timeout(1800)  # the first test waits for the whole comparison


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    if not PYTHON.is_file():
        pytest.skip("needs TRL in .venv-peers: make test-peers")
    path = tmp_path_factory.mktemp("trl") / "told.json"
    done = subprocess.run(
        [str(PYTHON), "-m", "benchmarks", "trainer", "--quick", "--json", str(path)],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_frozen_trajectory_is_the_same_in_both(told):
    assert told["same"]["num_tokens"] > 0
    assert told["same"]["max_difference"] < 1e-4


def test_both_learn_from_the_same_work(told):
    for case in told["cases"]:
        trl, *ours = (medians["counts"] for medians in case["medians"].values())
        work, num_images = case["work"], case["work"]["num_groups"] * case["work"]["group_size"] * case["work"]["turns"]
        assert len(ours) == 2
        assert trl["trained_images"] == num_images
        assert {each["decode_tokens"] for each in (trl, *ours)} == {num_images * (work["tokens"] - 1)}
        assert all(0 < each["trained_images"] <= num_images for each in ours)


def test_ours_prefills_and_encodes_less(told):
    for case in told["cases"]:
        trl, *ours = (medians["counts"] for medians in case["medians"].values())
        for each in ours:
            assert each["prefill_tokens"] < trl["prefill_tokens"] / 2
            assert each["sampled_images"] < trl["sampled_images"]
