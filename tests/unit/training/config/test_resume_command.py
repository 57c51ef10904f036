"""By which command a run goes on."""

from __future__ import annotations

import pytest

from tests.unit.training.batches import run_config
from training.config.resume import going_on_by, how_to_go_on


@pytest.mark.parametrize(
    ("words", "changes", "told"),
    [
        (["lake"], {}, "`python -m training lake --resume`"),
        (["lake"], {"name": "lake-2"}, "`python -m training lake --name lake-2 --resume`"),
        (["lake"], {"output": "my runs"}, "`python -m training lake --output 'my runs' --resume`"),
        (["--recipe", "my lake.py"], {}, "`python -m training --recipe 'my lake.py' --resume`"),
    ],
)
def test_the_command_names_what_finds_the_run_and_no_more(words, changes, told):
    config = run_config(**{"name": "lake", "output": "runs"} | changes)
    with going_on_by(words, config, name="lake", output="runs"):
        assert how_to_go_on() == told
    assert how_to_go_on() == "--resume", "of a run that Python started"


def test_of_several_processes_only_the_user_knows_the_launcher(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with going_on_by(["lake"], run_config(name="lake"), name="lake", output="runs"):
        assert how_to_go_on() == "--resume"
