"""Docstrings are read as they stand in the source, and what they describe is not imported."""

import subprocess
import sys

from vlm_envs.command_line import description_of, written_docstring, written_docstrings


def test_a_docstring_is_the_one_that_an_import_gives():
    from benchmarks.models.cli.run_command import RunOptions

    assert written_docstring("benchmarks.models.cli.run_command:RunOptions").startswith(description_of(RunOptions))


def test_a_name_that_a_module_imports_is_followed():
    assert written_docstring("benchmarks.trainers.trainer_comparison:TrainerOptions") == written_docstring(
        "benchmarks.trainers.trainer_comparison:TrainerOptions"
    )


def test_what_is_not_there_has_none():
    assert written_docstring("no_such_module:Thing") == written_docstring("vlm_envs.parts:NoSuchThing") == ""
    assert written_docstrings("no_such_module") == {}


def test_nothing_is_imported():
    code = (
        "import sys; from vlm_envs.command_line import written_docstring; "
        "print(bool(written_docstring('vlm_envs.worlds.sokoban:SokobanWorld')), "
        "'vlm_envs.worlds.sokoban' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "True False"
