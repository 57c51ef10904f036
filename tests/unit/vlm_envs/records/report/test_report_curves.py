"""Which curves a report shows, and how they are drawn."""

import re

import pytest

from vlm_envs.records.report.curves import panel_svgs
from vlm_envs.records.report.page import _ends
from vlm_envs.records.report.panels import Curve, Panel, panel_groups
from vlm_envs.records.report.values import short, smooth, y_range


def test_every_metric_has_a_panel():
    metrics = [
        {"iteration": 0, "phase": "cold_start", "loss": 3.0},
        {"iteration": 0, "success": 0.5, "reward/step": -0.2, "judge/grounding": 0.4, "kl": None, "new": 1},
        {
            "iteration": 1,
            "success": 0.6,
            "judge/late": 0.1,
            "timing/update_s": 2.0,
            "note": "text",
            "elapsed_s": 1,
        },
    ]
    groups = {group.title: [panel.title for panel in group.panels] for group in panel_groups(metrics, [])}
    assert groups == {
        "Success": ["Episodes solved"],
        "Reward": ["Step"],
        "Judges' rewards": ["Grounding", "Late"],
        "Policy": ["KL from the start"],
        "Other": ["New"],
        "Timing": ["Update"],
        "Cold start": ["Loss"],
    }


def test_evaluations_become_points_with_wilson_intervals():
    line = {"iteration": 0, "env_id": "w", "split": "test", "num_episodes": 20, "num_successes": 0}
    [group] = panel_groups([], [line, line | {"iteration": 9, "num_successes": 20}])
    [points] = group.panels[0].estimates
    assert (points.name, points.xs, points.ys) == ("held-out test levels", (0.0, 9.0), (0.0, 1.0))
    assert points.highs[0] == pytest.approx(0.1611, abs=5e-5)  # Newcombe (1998), table I


def test_missing_values_interrupt_a_line_and_a_value_alone_is_a_dot():
    curve = Curve(name="kl", xs=(0.0, 1.0, 2.0, 3.0), ys=(1.0, 2.0, None, 2.0))
    [drawing] = panel_svgs(Panel(title="a < b", hint="", scale="number", curves=(curve,)), (0.0, 3.0))
    [path] = re.findall(r'<path d="([^"]*)"[^>]*stroke: var\(--accent\); stroke-width: 1.9', drawing)
    assert (path.count("M"), path.count("L")) == (2, 1)
    assert drawing.count("<use ") == drawing.count("marker") + 1
    assert 'aria-label="a &lt; b"' in drawing


def test_a_point_says_its_numbers_under_the_mouse():
    line = {"iteration": 5, "env_id": "w", "split": "<test>", "num_episodes": 20, "num_successes": 10}
    [group] = panel_groups([], [line])
    for drawing in panel_svgs(group.panels[0], (0.0, 9.0)):
        assert drawing.count("<title>&lt;test&gt; levels: 50% (29.9%–70.1%)</title>") == 1


def test_numbers_are_short():
    written = [short(value) for value in (0, 0.1234, -12.345, 1234.5, 2e6, 4e-5)]
    assert written == ["0", "0.123", "−12.3", "1,234", "2e6", "4e−5"]
    assert (short(0.5, "rate"), short(0.3125, "rate")) == ("50%", "31.2%")


def test_smoothing_neither_lags_nor_spreads_missing_values():
    line = [float(value) for value in range(100)]
    assert smooth(line)[2:-2] == pytest.approx(line[2:-2])
    assert smooth(line)[-1] == (97 + 98 + 99) / 3  # half of the window of 5
    assert smooth([1.0, None, 3.0]) == [1.0, None, 3.0]
    flat = Panel(title="", hint="", scale="number", curves=(Curve(name="", xs=(0.0,), ys=(2.0,)),))
    low, high = y_range(flat)
    assert low < 2.0 < high


def test_the_number_in_the_corner_is_where_the_curve_ends_as_drawn():
    def ends(*curves):
        return _ends(Panel(title="", hint="", scale="number", curves=curves))

    def curve(*ys):
        return Curve(name="", xs=tuple(map(float, range(len(ys)))), ys=ys)

    assert ends(curve(5.0, 8.0), curve(1.0, None), curve()) == ["8", "1", "–"]
    assert ends(curve(*[0.0] * 79, 3.0)) == ["1"]  # the running mean of the last 3 values
