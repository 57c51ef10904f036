"""The algorithm of examples/rloo.py: advantages worked out by hand, and two iterations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.training.batches import text_batch
from training.__main__ import main
from training.algorithms.algorithm import Credit, ModelOutputs
from training.algorithms.grpo import GRPO
from training.update.update_losses import assigned_credit
from vlm_envs.errors import ConfigError

EXAMPLE = Path(__file__).parents[4] / "examples" / "rloo.py"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))


def test_advantages_are_returns_less_the_mean_of_the_others():
    from rloo import RLOO

    batch = text_batch(
        [[-1, 0, 0, 1]] * 3 + [[-1, 0, -1, -1]] * 3,
        [[1.0, 0.0], [2.0, 1.0], [0.0, 8.0], [5.0, 0.0], [7.0, 0.0], [99.0, 0.0]],
        group_index_B=torch.tensor([0, 0, 0, 1, 1, 1]),
        trainable_B=torch.tensor([True] * 5 + [False]),  # nobody is compared with the last row
    )
    penalties_BT = torch.zeros(6, 4)
    penalties_BT[0] = torch.tensor([9.0, -0.25, -0.25, -0.5])  # 9 stands where nothing was generated
    outputs = ModelOutputs(
        old_logprobs_BT=penalties_BT,
        values_BT=None,
        turn_end_values_BK=None,
        final_values_B=None,
        token_rewards_BT=penalties_BT,
        ref_kl=None,
    )
    credit = RLOO().credit(batch, outputs)
    # Returns 0, 3, 8: 0 - 11 / 2, 3 - 8 / 2, 8 - 3 / 2; and 5 - 7, 7 - 5
    assert credit.advantages_BT[:, 1].tolist() == [-5.5, -1.0, 6.5, -2.0, 2.0, 0.0]
    assert credit.advantages_BT[2].tolist() == [0.0, 6.5, 6.5, 6.5]
    assert credit.returns_BT is None


def test_it_trains_and_goes_on(tiny_directory, tmp_path, capsys):
    words = ["frozenlake_tiny", "--algorithm", "rloo:RLOO", "--output", str(tmp_path), "--name", "run"]
    words += ["--model", str(tiny_directory), "--num-groups", "2", "--group-size", "2", "--num-eval-episodes", "0"]
    words += ["--ppo.num-minibatches", "1", "--sampling.max-new-tokens", "6", "--num-threads", "1"]
    assert main([*words, "--num-iterations", "1"]) == 0
    assert "critic" not in capsys.readouterr().out
    same_run = [words[0], "--output", str(tmp_path), "--name", "run", "--resume"]
    assert main([*same_run, "--num-iterations", "2"]) == 0
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (saved["algorithm"], saved["trained_with"]) == ({"class": "rloo:RLOO"}, "RLOO")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(line["iteration"], line["skipped_steps"], "value_loss" in line) for line in lines] == [
        (0, 0, False),
        (1, 0, False),
    ]
    assert main([*same_run, "--algorithm", "grpo"]) == 2
    assert '--algorithm: the run has "rloo:RLOO", requested is "grpo"' in capsys.readouterr().err


def test_fewer_siblings_than_it_compares_are_refused(tmp_path, capsys):
    words = ["frozenlake_tiny", "--algorithm", "rloo:RLOO", "--group-size", "1", "--output", str(tmp_path)]
    assert main(words) == 2
    assert "--algorithm rloo:RLOO compares" in " ".join(capsys.readouterr().err.split())


@dataclass(frozen=True, kw_only=True)
class Given(GRPO):
    """Returns what it was given, whatever that is."""

    credits: Any = None

    def credit(self, batch, outputs):
        return self.credits


@pytest.mark.parametrize(
    ("credits", "said"),
    [
        (torch.zeros(1, 4), "must return a Credit; got Tensor"),
        (Credit(advantages_BT=torch.zeros(1)), r"advantages_BT of \(1,\).*\(1, 4\)"),
        (Credit(advantages_BT=[0.0]), r"advantages_BT of list.*\(1, 4\)"),
        (Credit(advantages_BT=torch.zeros(1, 4), returns_BT=torch.zeros(1, 4)), "has no critic"),
    ],
)
def test_credit_that_does_not_fit_its_batch_is_refused(credits, said):
    with pytest.raises(ConfigError, match=rf"test_own_algorithm:Given: credit.* {said}"):
        assigned_credit(Given(credits=credits), text_batch([[-1, 0, 0, 0]], [[1.0]]), None)


def test_its_file_has_under_40_lines():
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 40
