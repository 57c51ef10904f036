"""Two training processes, as `accelerate launch` starts them, each with a vLLM of its own. Run in .venv-vllm."""

import os
import re

import pytest

from tests.unit.training.engines.several_processes import launched
from tests.vllm import two_processes
from tests.vllm.two_processes import NEAR, ended, metrics, require_sampled, trained


@pytest.mark.timeout(900)
def test_both_learn_from_what_is_sampled_with_their_weights(tmp_path):
    require_sampled(trained(tmp_path, "--vllm.memory-fraction", "0.1"), tmp_path)


@pytest.mark.timeout(900)
def test_a_stage_gives_back_the_memory_of_its_vllm_and_the_next_has_its_weights(tmp_path):
    words = ["--recipe", f"{two_processes.__file__}:two_stages", "--output", str(tmp_path)]
    codes, told = ended(launched(2, *words, module="training"), timeout_s=800)
    assert codes == [0, 0] and not any("Traceback" in each for each in told), "\n\n".join(each[-3000:] for each in told)
    cache_mib = 1024 * int(os.environ["VLLM_CPU_KVCACHE_SPACE"])
    for each in told:
        first, second = map(int, re.findall(r"^memory (\d+)$", each, re.MULTILINE))
        assert second - first < cache_mib / 2
    for run in ("two/1-first", "two/2-second"):
        gaps = [row["sampler_gap"] for row in metrics(tmp_path, run) if "sampler_gap" in row]
        assert gaps and max(gaps) < NEAR
