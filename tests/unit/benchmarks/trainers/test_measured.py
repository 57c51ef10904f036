"""Time by part, tokens by kind, medians, and how they are written."""

import threading
from dataclasses import asdict

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

import torch

from benchmarks.trainers.our_trainer import ModelCounts, Stopwatch
from benchmarks.trainers.trainer_comparison import CaseResult, Lap, Measured, Medians, Work, lines


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def test_time_within_an_inner_part_counts_for_it_alone(clock):
    watch = Stopwatch("rest", clock)
    clock.now_s = 1
    with watch.part("decode"):
        clock.now_s = 3
        with watch.part("prefill"):
            clock.now_s = 7
        clock.now_s = 15
    clock.now_s = 31
    assert watch.lap() == {"rest": 1 + 16, "decode": 2 + 8, "prefill": 4}
    clock.now_s = 32
    assert watch.lap() == {"rest": 1}


def test_a_part_ends_with_what_fails_within_it(clock):
    watch = Stopwatch("rest", clock)
    with pytest.raises(ValueError, match="no"), watch.part("worlds"):
        clock.now_s = 2
        raise ValueError("no")
    clock.now_s = 5
    assert watch.lap() == {"worlds": 2, "rest": 3}


def test_other_threads_change_nothing(clock):
    watch = Stopwatch("rest", clock)

    def elsewhere():
        with watch.part("worlds"):
            clock.now_s = 4

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert watch.lap() == {"rest": 4}


class Tower(torch.nn.Module):
    def forward(self, pixels, grid_thw):
        return pixels


class Backbone(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = Tower()

    def get_rope_index(self, ids_BT):
        return ids_BT

    def get_image_features(self, pixels, grid_thw):
        return self.visual(pixels, grid_thw)

    def forward(self, input_ids):
        return input_ids


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Backbone()


def test_passes_are_told_apart_by_gradients_and_columns():
    model = Model()
    counts = ModelCounts(Stopwatch("rest"), model)
    with torch.no_grad():
        model.model(input_ids=torch.zeros(4, 30))
        model.model(input_ids=torch.zeros(4, 1))
        model.model(torch.zeros(3, 1))
        model.model.get_image_features(torch.zeros(2), torch.ones(2, 3))
    model.model(input_ids=torch.zeros(2, 50))
    model.model.visual(torch.zeros(2), grid_thw=torch.ones(5, 3))
    expected = {"prefill_tokens": 120, "decode_tokens": 7, "trained_tokens": 100, "sampled_images": 2}
    assert counts.lap() == expected | {"trained_images": 5}
    assert counts.lap() == {}


def run(*iterations_s):
    laps = [Lap(seconds={"decode": each, "update": 1.0}, counts={"prefill_tokens": 7}) for each in iterations_s]
    return Measured(laps=laps, peak_mib=100.0)


def test_medians_are_over_the_iterations_of_all_processes():
    medians = Medians.of([run(1, 9), run(2)])
    assert medians.iteration_s == 3
    assert medians.parts_s["decode"] == medians.rollout_s == 2
    assert medians.parts_s["judges"] == 0
    assert medians.counts == {"prefill_tokens": 7}


def test_what_is_measured_comes_back_from_json():
    assert Measured.from_dict(asdict(run(1, 2))) == run(1, 2)


def test_the_table_has_the_ratio_to_the_peer():
    work = Work(num_groups=2, group_size=2, micro_batch_size=2, turns=3, tokens=10)
    result = CaseResult(work=work, runs={"trl": [run(5)], "async": [run(2)]})
    heading, rule, theirs, ours = lines([result], "trl")
    cells = dict(zip(map(str.strip, heading.split("|")), map(str.strip, ours.split("|")), strict=True))
    assert cells["trainer"] == "async"
    assert cells["ratio"] == "2.00x"  # 6 s against 3
    assert (cells["steps/s"], cells["tokens/s"]) == ("4.0", "40")
    assert len({len(each) for each in (heading, rule, theirs, ours)}) == 1
