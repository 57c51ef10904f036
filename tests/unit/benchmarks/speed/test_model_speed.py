"""Ours and the peer's tokens are counted alike."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from benchmarks.speed.model_speed import _Generate  # noqa: E402


class _Scripted:
    """Stands in for a model whose `generate` returns fixed rows."""

    device = torch.device("cpu")

    def __init__(self, rows):
        self._rows = torch.tensor(rows)

    def generate(self, **arguments):
        return self._rows


def test_tokens_count_up_to_the_first_end_of_turn():
    peer = object.__new__(_Generate)
    # Two prompt tokens; 9 ends a turn and 0 pads: 3 tokens, 1 token, 4 tokens that never end.
    peer._model = _Scripted([[1, 1, 5, 6, 9, 0], [1, 1, 9, 0, 0, 0], [1, 1, 5, 5, 5, 5]])
    peer._arguments, peer._width, peer._end_id, peer._num_tokens = {}, 2, 9, []
    peer()
    assert peer.mean_num_tokens == 8.0
