"""What runs print where the output is not a terminal."""

import pytest

from training.loop import loggers
from training.loop.loggers import RunConsole


@pytest.mark.parametrize(
    ("num_before", "step_s", "left"),
    [(0, 60.0, ["29 min", "20 min", "10 min", ""]), (10, 6.0, ["2 min", "60 s", ""]), (25, 60.0, ["4 min", ""])],
)
def test_lines_estimate_the_time_left_from_the_steps_of_this_process(num_before, step_s, left, monkeypatch, capsys):
    now = [1000.0]
    monkeypatch.setattr(loggers.time, "monotonic", lambda: now[0])
    with RunConsole("rl", 30) as console:
        for step in range(num_before, 30):
            now[0] += step_s
            console.advance(step, {"success": 0.5}, ("success",))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("about ")[2].removesuffix(" left") for line in lines] == left
