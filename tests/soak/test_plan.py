"""The paper's run, planned with its whole model."""

from __future__ import annotations

from tests.unit.training.memory_plan.configs import save_3b
from tests.unit.training.memory_plan.test_plan_command import NUM, check_eight_gpus, planned  # noqa: F401  (a fixture)


def test_eight_gpus_hold_the_papers_run(tmp_path, planned):  # noqa: F811
    # 36 layers keep 5 MB of a token, for 4 rows of some 630 tokens; the tower and the head's gradient take the rest
    check_eight_gpus(planned, save_3b(tmp_path), NUM, 6.5e6)
