"""One row of two turns, of which results are known by hand."""

from typing import Any

import torch

NAN = float("nan")

# One row, two turns of two tokens, each after one observed token. What must not be read is NaN. The four
# coefficients differ so that a mix-up shows; gamma * lambda is 0.2 on both levels.
TURN_INDEX = torch.tensor([[-1, 0, 0, -1, 1, 1, -1]])
VALUES = torch.tensor([[NAN, 1.0, 2.0, NAN, 3.0, 4.0, NAN]])
TOKEN_REWARDS = torch.tensor([[NAN, -0.1, -0.2, NAN, -0.3, -0.4, NAN]])
TURN_REWARDS = torch.tensor([[1.0, 2.0, NAN]])
TURN_END_VALUES = torch.tensor([[2.5, 5.0, NAN]])
COEFFICIENTS: dict[str, Any] = {
    "gamma_turn": 0.5,
    "lambda_turn": 0.4,
    "gamma_token": 0.8,
    "lambda_token": 0.25,
}
