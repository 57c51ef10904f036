"""What a report shows first: the result, what went wrong, and episodes; curves come last."""

from __future__ import annotations

import re

import pytest

from tests.unit.vlm_envs.records.test_report import failing, play, write_evaluation, write_run
from vlm_envs.records.report_mistakes import MEANINGS, Kind, failures
from vlm_envs.records.report_page import build_report
from vlm_envs.records.run_data import RunWriter, training_label

SECTIONS = ["result", "failures", "episodes", "evaluations", "curves", "configuration"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of a run of which three of eight levels fail afterwards, with a wide table and many curves."""
    directory = tmp_path_factory.mktemp("run")
    writer = write_run(directory, num_iterations=40)
    write_evaluation(writer, "before", 0, [failing(seed) for seed in range(8)])
    wide = {f"some_rather_long_measure_{i}": 0.123 for i in range(12)}
    after = [failing(seed) if seed < 2 else play(seed) for seed in range(8)]
    write_evaluation(writer, "after", 40, after, **wide, num_lost=0)
    return build_report(directory)


def test_sections_come_in_order_and_the_contents_link_to_each(report):
    html = report.read_text(encoding="utf-8")
    assert [name for name in re.findall(r'<(?:section|div) id="(\w+)"', html) if name in SECTIONS] == SECTIONS
    contents = re.search(r'<nav class="contents".*?</nav>', html, flags=re.DOTALL)[0]
    assert re.findall(r'href="#(\w+)"', contents) == SECTIONS


def test_a_run_without_evaluations_links_only_to_what_it_has(tmp_path):
    RunWriter(tmp_path).config({})
    html = build_report(tmp_path).read_text(encoding="utf-8")
    assert re.findall(r'href="#(\w+)"', html) == ["curves", "configuration"]


def test_columns_that_are_zero_everywhere_are_left_out(report, tmp_path):
    assert "<th>lost</th>" not in report.read_text(encoding="utf-8")
    writer = RunWriter(tmp_path)
    writer.config({})
    write_evaluation(writer, "after", 0, [play(0)], num_lost=2)
    assert "<th>lost</th>" in build_report(tmp_path).read_text(encoding="utf-8")


def label_of(name, beside=None, num_recorded=4, is_training=False, **mistakes):
    kinds = {kind.replace("_", " "): count for kind, count in mistakes.items()}
    return {
        "label": name,
        "beside": beside,
        "is_training": is_training,
        "num_recorded": num_recorded,
        "num_failed": sum(kinds.values()),
        "mistakes": kinds,
        "episodes": [{}],
    }


def test_failures_are_counted_by_first_mistake_beside_the_evaluation_compared_with():
    labels = [
        label_of("before", detour=1, cut_off=2),
        label_of("after", beside="before", lost=1, detour=2),
        label_of(training_label(3), is_training=True, lost=4),
    ]
    found = failures(labels)
    assert [(column["label"], column["num_failed"]) for column in found["columns"]] == [("before", 3), ("after", 3)]
    assert {row["kind"]: row["counts"] for row in found["rows"]} == {
        "lost": [0, 1],
        "detour": [1, 2],
        "cut off": [2, 0],
    }
    addresses = {row["kind"]: row["address"] for row in found["rows"]}
    assert addresses == {
        "lost": "#label=after&filter=failed&mistake=lost",
        "detour": "#label=after&filter=failed&mistake=detour",
        "cut off": "",
    }
    assert failures(labels[2:]) is None
    assert [column["label"] for column in failures(labels[:1])["columns"]] == ["before"]


def test_every_kind_of_mistake_is_explained():
    assert set(MEANINGS) == set(Kind.__args__)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_page_fits_the_screen_and_episodes_come_soon(report, chromium, width, height, scheme):
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    troubles = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(f"file://{report}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tops = {name: page.locator(f"#{name}").bounding_box()["y"] for name in SECTIONS}
    assert sorted(tops, key=tops.get) == SECTIONS
    assert tops["episodes"] <= 1.5 * height
    table = page.locator("#evaluations .scroll")
    if width > 620:  # a phone shows its cells below each other
        assert table.evaluate("element => element.scrollWidth > element.clientWidth")
    page.locator("#failures a", has_text="out of format").click()
    assert page.locator("#position").inner_text() == "Episode 1 of 2"
    assert page.locator("#episodes").bounding_box()["y"] < 40
    assert troubles == []
    context.close()


LONG = "a_run_whose_name_takes_as_much_as_a_file_name_of_67_characters_1_"


@pytest.fixture(scope="module")
def long_report(tmp_path_factory):
    """The report of two runs of long names whose evaluations have long labels."""
    directories = [tmp_path_factory.mktemp("runs") / f"{LONG}{i}" for i in range(2)]
    for directory in directories:
        writer = write_run(directory, num_iterations=2)
        for label in ("before", f"an_evaluation_of_a_checkpoint_{LONG}"):
            write_evaluation(writer, label, 2, [failing(0), play(1)])
    return build_report(directories[0], beside=directories[1])


@pytest.mark.parametrize("width", [1280, 390])
def test_long_names_of_runs_and_evaluations_fit_the_screen(long_report, chromium, width):
    page = chromium.new_page(viewport={"width": width, "height": 844})
    page.goto(f"file://{long_report}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.fixture(scope="module")
def solved_report(tmp_path_factory):
    """The report of a run that solves its one level afterwards."""
    directory = tmp_path_factory.mktemp("solved")
    writer = RunWriter(directory)
    writer.config({})
    write_evaluation(writer, "before", 0, [failing(0)])
    write_evaluation(writer, "after", 2, [play(0)])
    return build_report(directory)


def test_only_evaluations_with_failures_link_to_them(solved_report):
    head = re.search(r'<table class="failures">.*?</thead>', solved_report.read_text("utf-8"), flags=re.DOTALL)[0]
    assert re.findall(r'<a href="(.+?)">(\w+)</a>', head) == [("#label=before&amp;filter=failed", "before")]
    assert ">after</th>" in head


def test_a_single_solved_episode_is_not_counted_as_several(tmp_path):
    writer = RunWriter(tmp_path)
    writer.config({})
    write_evaluation(writer, "after", 2, [play(0)])
    section = (
        build_report(tmp_path).read_text("utf-8").partition('<section id="failures">')[2].partition("</section>")[0]
    )
    assert "The only recorded episode of “after” was solved." in section


def test_going_back_restores_the_chosen_episodes(solved_report, chromium):
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(5000)
    page.goto(f"file://{solved_report}")
    is_chosen = "label => browsing.here().label === label"
    page.locator(".contents a", has_text="Failures").click()
    page.locator("#failures thead a", has_text="before").click()
    page.wait_for_function(is_chosen, arg="before")
    page.go_back()
    assert page.url.endswith("#failures")
    page.wait_for_function(is_chosen, arg="after")
    page.go_forward()
    page.wait_for_function(is_chosen, arg="before")
    page.close()
