"""`python -m benchmarks claims`: what it refuses, tells and shows before it runs anything."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from benchmarks.__main__ import main
from benchmarks.claims.claim import CLAIMS
from tests.unit.benchmarks.claims.test_report import CHECKOUT, NAME, results  # noqa: F401


@pytest.fixture
def no_pool(monkeypatch):
    def started(self, *args, **kwargs):
        raise AssertionError("processes are started")

    monkeypatch.setattr(ProcessPoolExecutor, "__init__", started)


@pytest.mark.usefixtures("no_pool")
def test_what_is_there_is_shown_without_other_processes(results, capsys):  # noqa: F811
    assert main(["claims", "--only", NAME, "--results", str(results)]) == 0
    shown = capsys.readouterr().out
    assert CLAIMS[NAME].title in shown and "corrected for as many claims as it has." in shown.splitlines()[-1]


def test_who_interrupts_is_told_what_is_kept(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.claims.command._wait", interrupted)
    assert main(["claims", "--only", NAME, "--seeds", "1", "--runs", str(tmp_path)]) == 130
    told = f"Interrupted. Arms that are whole are in {tmp_path / 'results'}; the same command makes the others."
    assert capsys.readouterr().err.splitlines() == [told]


@pytest.mark.usefixtures("no_pool")
def test_seeds_of_all_claims_are_refused(tmp_path, capsys):
    assert main(["claims", "--seeds", "1", "2", "--runs", str(tmp_path)]) == 2
    assert "error: --seeds 1 2 needs --only: of all claims it would take hours." in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_the_help_lists_all_claims_with_their_minutes(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["claims", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    listed = re.search(r"with the minutes of one core .*?: (.*?)\. ", told)
    assert stop.value.code == 0 and re.findall(r"[a-z]+_\w+", listed[1]) == list(CLAIMS)


@pytest.mark.soak
def test_a_wrong_name_is_refused_before_torch_is_loaded():
    asked = "import sys; from benchmarks.__main__ import main; sys.argv = ['', 'claims', '--only', 'frozenlake_50']; "
    command = [sys.executable, "-c", f"{asked}print(main(), 'torch' in sys.modules)"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)
    assert done.stdout == "2 False\n"
    assert "error: Unknown claim 'frozenlake_50'. Did you mean" in done.stderr


@pytest.mark.usefixtures("no_pool")
@pytest.mark.parametrize("runs", [[], ["--seeds", "1"]], ids=["shown", "run"])
@pytest.mark.parametrize(("place", "told"), [("none/claims.png", "There is no folder for"), ("", "is a folder. Name")])
def test_a_picture_that_has_no_place_is_refused_before_anything_is_run_or_shown(results, capsys, runs, place, told):  # noqa: F811
    before = {*results.parent.iterdir()}
    words = ["claims", "--only", NAME, "--results", str(results), "--picture", str(results / place), *runs]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and told in err
    assert {*results.parent.iterdir()} == before
