"""A run of stages in several processes: all reinforce, the main one fine-tunes; one files, and one goes on with it."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.unit.training.engines.several_processes import launched
from tests.unit.training.loop.test_several_processes import LIMIT_S, ended
from tests.unit.training.stages.test_stages_loop import FOLDERS, data, lines_of, recipe, weights  # noqa: F401
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.stages.stages_config import saved_stages
from vlm_envs.records.run_data import RunReader


@pytest.mark.parametrize("engine", ["ddp", "fsdp2"])
def test_two_processes_run_all_stages_and_one_goes_on(engine, recipe, tmp_path):  # noqa: F811
    words = ["--recipe", recipe, "--output", str(tmp_path), "--name", "together"]
    of_stages = [word for stage in FOLDERS[1:] for word in (f"--stages.{stage[2:]}.engine", engine)]
    told = ended(launched(2, *words, *of_stages, module="training"))
    assert all(f"Stage {number} of 3" in told[0] for number in (1, 2, 3)) and "Report: " in told[0]
    assert "Stage" not in told[1], "the main process alone says how it goes"
    run = tmp_path / "together"
    assert saved_stages(run)[1] == ["sft", "explore", "accuracy"]
    num_lines = [len(list(RunReader(run / folder).metrics())) for folder in FOLDERS]
    assert num_lines == [5, 2, 2], "the loss is told before the first step of the fine-tuning, too"
    assert (run / "report.html").is_file()
    started, ended_with = weights(run / "1-sft"), weights(run / "2-explore")
    assert any(not started[name].equal(ended_with[name]) for name in started)

    longer = ["--resume", "--stages.accuracy.num-iterations", "3", "--stages.accuracy.engine", "local"]
    ended(launched(1, *words, *longer, module="training"))
    assert load_checkpoint_state(run / "3-accuracy" / "latest")["iteration"] == 3


def test_a_fine_tuning_that_is_killed_ends_all_and_is_gone_on_with(recipe, tmp_path):  # noqa: F811
    words = ["--recipe", recipe, "--output", str(tmp_path), "--name", "killed", "--stages.sft.num-steps", "4000"]
    main_process, other = launched(2, *words, module="training")
    latest, until = tmp_path / "killed" / "1-sft" / "latest" / "progress.json", time.monotonic() + 250
    while not latest.exists() and main_process.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
    os.kill(main_process.pid, signal.SIGKILL)
    main_process.communicate(timeout=60)
    told, _ = other.communicate(timeout=200)
    assert other.returncode == 1 and "Resume with --resume" in told and "Traceback" not in told, told
    shorter = ["--stages.sft.num-steps", str(load_checkpoint_state(latest.parent)["iteration"] + 2)]
    ended(launched(2, *words[:6], "--resume", *shorter, module="training"))
    assert saved_stages(tmp_path / "killed")[1] == ["sft", "explore", "accuracy"]


@pytest.mark.parametrize("is_main_alone", [True, False])
def test_an_interrupt_stops_a_fine_tuning_for_both_and_is_told_once(is_main_alone, recipe, tmp_path):  # noqa: F811
    words = ["--recipe", recipe, "--output", str(tmp_path), "--name", "stopped", "--stages.sft.num-steps", "4000"]
    processes = launched(2, *words, module="training")
    latest, until = tmp_path / "stopped" / "1-sft" / "latest" / "progress.json", time.monotonic() + 250
    while not latest.exists() and processes[0].poll() is None and time.monotonic() < until:
        time.sleep(0.2)
    for process in processes[:1] if is_main_alone else reversed(processes):
        process.send_signal(signal.SIGINT)
    told = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [130, 130], told
    assert f"kill -INT {processes[0].pid}" in told[0] and "--resume" in told[0]
    assert "--resume" not in told[1] and "stopped" not in told[1] and "Traceback" not in told[1]


@pytest.mark.parametrize("threshold", [0.0, 100.0])
def test_the_main_process_curates_and_all_hear_of_it_if_nothing_is_kept(threshold, tmp_path):
    (tmp_path / "curating.py").write_text(
        "from dataclasses import replace\n"
        "from tests.unit.training.stages.test_stages_of_data import CURATED, staged\n"
        "from training.stages.stages_config import StagesConfig\n\n\n"
        "def curating() -> StagesConfig:\n"
        '    """A curation, and a fine-tuning on what it keeps."""\n'
        f"    return staged({str(tmp_path)!r}, replace(CURATED, threshold={threshold}))\n"
    )
    processes = launched(2, "--recipe", str(tmp_path / "curating.py"), module="training")
    if threshold == 0.0:
        told = ended(processes)
        assert told[0].count("Dataset: ") == 1 and "Dataset: " not in told[1]
        assert saved_stages(tmp_path / "staged")[1] == ["rollouts", "sft"]
        return
    told = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [2, 2], told
    assert "Nothing is curated" in told[0] and "Nothing is curated" not in told[1], "it is told once"
    assert "Traceback" not in "".join(told)
