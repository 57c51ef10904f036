"""The linear probe: what features tell is read, what they do not is not."""

import pytest

torch = pytest.importorskip("torch")

from benchmarks.probe.linear import Levels, LinearProbe  # noqa: E402

LEVELS = Levels(num_learnt=300, num_chosen=100)


@pytest.fixture(scope="module")
def features():
    return torch.randn(600, 12, generator=torch.Generator().manual_seed(0))


def test_a_class_that_features_hold_is_read(features):
    values = [("left", "right")[int(value > 0)] for value in features[:, 3]]
    assert LinearProbe(features, LEVELS).skill(values) > 0.8


def test_a_number_that_features_hold_is_read_and_noise_is_what_is_left(features):
    exact = features @ torch.arange(12.0)
    noise = torch.randn(600, generator=torch.Generator().manual_seed(1)) * exact.std()
    probe = LinearProbe(features, LEVELS)
    assert probe.skill(exact.tolist()) > 0.99
    assert probe.skill((exact + noise).tolist()) == pytest.approx(0.5, abs=0.12)


def test_what_features_do_not_hold_is_not_read(features):
    values = torch.randn(600, generator=torch.Generator().manual_seed(2))
    probe = LinearProbe(features, LEVELS)
    assert abs(probe.skill(values.tolist())) < 0.15
    assert abs(probe.skill([bool(value > 0) for value in values])) < 0.25


def test_the_most_frequent_class_is_worth_nothing(features):
    values = ["often"] * 600
    values[::10] = ["seldom"] * 60
    assert LinearProbe(torch.zeros(600, 4), LEVELS).skill(values) == 0.0
