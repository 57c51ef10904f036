"""Two training processes, as `accelerate launch` starts them, each with a vLLM of its own. Run in .venv-vllm."""

import pytest

from tests.vllm.two_processes import require_sampled, trained


@pytest.mark.timeout(900)
@pytest.mark.parametrize("process", ["same", "own"])
def test_both_learn_from_what_is_sampled_with_their_weights(process, tmp_path):
    how = ("--vllm.process", process, "--vllm.memory-fraction", "0.1")
    require_sampled(trained(tmp_path, *how), tmp_path)
