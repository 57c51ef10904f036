"""A run goes on with more processes or fewer, and on another engine, from the checkpoint that it was left with."""

from __future__ import annotations

import json

from tests.unit.training.engines.several_processes import launched
from tests.unit.training.loop.test_several_processes import ended, options, there
from vlm_envs.records.run_data import RunReader


def test_any_number_of_processes_goes_on(tiny_directory, tmp_path):
    ended(launched(2, *options(tiny_directory, tmp_path, num_iterations="1"), "--engine", "ddp", module="training"))
    reader, latest = RunReader(tmp_path / "two"), tmp_path / "two" / "latest"
    for done, (num_processes, engine) in enumerate([(3, "fsdp2"), (2, "fsdp2"), (3, "ddp"), (1, "local")], start=2):
        more = ("--resume", *there(tmp_path, done), "--engine", engine)
        ended(launched(num_processes, "frozenlake_tiny", *more, module="training"))
        assert [line["iteration"] for line in reader.metrics()] == list(range(done))
        assert json.loads((latest / "progress.json").read_text()) == {"iteration": done}
        files = {path.name for path in (latest / "processes").iterdir()} if num_processes > 1 else set()
        assert files == {f"{rank}.pt" for rank in range(num_processes) if num_processes > 1}
