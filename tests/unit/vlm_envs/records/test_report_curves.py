"""Which curves a report shows, and how they are drawn."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from vlm_envs.records import report_curves
from vlm_envs.records.report_curves import look_classes, panel_svgs, save_curves
from vlm_envs.records.report_page import _ends
from vlm_envs.records.report_panels import Curve, Panel, PanelGroup, panel_groups, short, smooth, y_range


def test_every_metric_has_a_panel():
    metrics = [
        {"iteration": 0, "phase": "cold_start", "loss": 3.0},
        {"iteration": 0, "success": 0.5, "reward/step": -0.2, "judge/grounding": 0.4, "kl": None, "new": 1},
        {
            "iteration": 1,
            "success": 0.6,
            "judge/late": 0.1,
            "score/observation/VLM/Sokoban-v0": 0.7,
            "tool_used/VLM/DocQA-v0": 0.5,
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
        "Judges' scores": ["Observation: VLM/Sokoban-v0"],
        "Responses": ["A tool did its work: VLM/DocQA-v0"],
        "Policy": ["KL from the start"],
        "Other": ["New"],
        "Timing": ["Update"],
        "Cold start": ["Loss"],
    }


def test_every_metric_that_the_page_lists_has_a_place_in_the_report():
    page = (Path(__file__).parents[4] / "docs" / "training.md").read_text(encoding="utf-8")
    table = page.partition("| metric | meaning |\n|---|---|\n")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    line = {"iteration": 0} | {name.replace("<", "").replace(">", ""): 1.0 for name in names}
    assert {"approx_kl", "lost_episodes", "zero_variance_groups"} < line.keys()
    assert "Other" not in {group.title for group in panel_groups([line], [])}


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


STYLE = (Path(report_curves.__file__).parent / "report" / "style.css").read_text()
LEVELS = ("held-out test levels", "held-out val levels")
WORLDS = [f"VLM/World{number}-v0" for number in range(9)]
SEEN_WITHOUT = {
    "nothing": np.eye(3),
    "red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
"""Of linear RGB what is seen without each kind of cones: Machado, Oliveira and Fernandes (2009), severity 1."""


def groups_of_nine_worlds():
    lines = [
        {"iteration": iteration, "env_id": world, "split": split, "num_episodes": 20, "num_successes": number}
        for split in ("test", "val")
        for number, world in enumerate(WORLDS)
        for iteration in (0, 9)
    ]
    metrics = [{"iteration": iteration, "success": 0.5, "reward": 1.0} for iteration in range(10)]
    return panel_groups(metrics, lines)


def seen_lab(color, cones):
    """Returns CIE L*a*b* of "#rrggbb" as it is seen, with the white of D65."""
    encoded = np.array([int(color[start : start + 2], 16) for start in (1, 3, 5)]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = to_xyz @ np.clip(cones @ linear, 0, 1) / [0.9505, 1, 1.0888]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_nine_worlds_differ_in_colour_and_in_marker():
    [group, _] = groups_of_nine_worlds()
    for drawing in panel_svgs(group.panels[0], (0.0, 9.0)):
        looks = {}
        for name, at in re.findall(r"<title>([^:<]*):.*?</title>(.*?)</g>", drawing, re.DOTALL):
            color, shape = re.search(r"fill: var\(--(\w+)\)", at), re.search(r'd="([^"]*)"', at)
            looks.setdefault(name, (color[1], shape[1] if shape else looks[name][1]))
        assert list(looks) == [f"{world}, {levels}" for levels in LEVELS for world in WORLDS]
        of_test = list(looks.values())[:9]
        assert [len(set(each)) for each in zip(*of_test, strict=True)] == [9, 9]
        assert len(set(looks.values())) == 18, "those of validation levels are others"
        for index, (color, _) in enumerate(looks.values()):
            series, marker = look_classes(index).split()
            assert f".{series} {{ --hue: var(--{color}); }}" in STYLE
            assert marker in ("marker0", "marker1") or f".legend .{marker}::before {{ clip-path: " in STYLE


@pytest.mark.parametrize("lacking", SEEN_WITHOUT)
@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_of_worlds_are_told_apart_by_the_colour_blind(scheme, lacking):
    names = ["point", "other", "good", *(f"series{number}" for number in range(3, 9))]
    colors = [re.findall(rf"--{name}: (#\w+);", STYLE)[scheme] for name in names]
    seen = [seen_lab(color, np.array(SEEN_WITHOUT[lacking])) for color in colors]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 15  # 2.3 is just noticed


def drawn_curves(groups, monkeypatch):
    """Returns the figure of the PNG file as it is laid out when it is saved."""
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: figures.append(figure))
    save_curves(groups, Path("curves.png"), title="drawn")
    [figure] = figures
    figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize(
    ("low", "high"),
    [
        *((0, 1e-8), (-3e-12, 0), (1 - 1e-8, 1 + 1e-8), (0.0100001, 0.0100005), (0.00011, 0.00013)),
        *((0.001234, 0.001239), (99_000.5, 99_001), (-999_999, 999_999), (-2e30, 1e30), (-1e-300, 1e-300), (7, 7)),
    ],
)
@pytest.mark.sample(3)
def test_the_numbers_of_an_axis_have_room(low, high, monkeypatch):
    curve = Curve(name="gap", xs=(0.0, 1.0), ys=(low, high))
    panels = [Panel(title=name, hint="log-probability", scale="number", curves=(curve,)) for name in "abcdef"]
    figure = drawn_curves([PanelGroup(title="Policy", panels=tuple(panels))], monkeypatch)
    boxes = [axes.get_tightbbox(bbox_extra_artists=[]) for axes in figure.axes]  # with titles and numbers
    assert all(figure.bbox.x0 <= box.x0 and figure.bbox.y0 <= box.y0 for box in boxes)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    axis = figure.axes[0].yaxis
    written = [label.get_text() for label in axis.get_ticklabels()]
    assert len(set(written)) == len(written) >= 2, "numbers that differ do so as they are written"


def test_a_long_legend_covers_no_panel(monkeypatch):
    figure = drawn_curves(groups_of_nine_worlds(), monkeypatch)
    [legend] = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    assert [text.get_text() for text in legend.get_texts()][1::9] == [f"{WORLDS[0]}, {levels}" for levels in LEVELS]
    covered = legend.get_window_extent()
    assert figure.bbox.x0 <= covered.x0 and covered.x1 <= figure.bbox.x1 and covered.y1 <= figure.bbox.y1
    drawn = [axes.bbox for axes in figure.axes if axes.axison]
    assert len(drawn) == 2 and not any(covered.overlaps(box) for box in drawn)


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
