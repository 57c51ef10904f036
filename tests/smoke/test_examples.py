"""Every example runs as a newcomer would run it, and says what its text promises."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from training.__main__ import main

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = CHECKOUT / "examples"

NOTEBOOK = EXAMPLES / "evaluate_any_model.ipynb"

SAYS: dict[str, list[str]] = {
    "01_make_and_step.py": ["Game: Sokoban.", "picture: (168, 168, 3) uint8", "Not in the format"],
    "02_oracle_episode.py": ["actions left 0", "solved: True"],
    "03_vector.py": ["observations: 8 dicts of ['image', 'text']", "of 8"],
    "adapted_env.py": ["Game: MiniGrid-DoorKey-5x5.", "The door is at", "Done: "],
    "curriculum.py": [],
    "lake_stages.py": [],
    "memory_game.py": [],
    "minimal_loop.py": ["before: ", "iteration 2: success ", "policy_loss", "after: "],
    "own_agent.py": [],
    "own_episode_reward.py": [],
    "own_mix.py": [],
    "own_world.py": [],
    "rloo.py": [],
}
"""Example to what it must print."""

ARGUMENTS = {"minimal_loop.py": ["--num-iterations", "2", "--num-groups", "2", "--num-eval-levels", "8"]}
"""Example to arguments that make it short."""


def run_python(*arguments: str, cwd: Path = CHECKOUT) -> str:
    environ = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONWARNINGS": "error::UserWarning"}
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=environ, timeout=280
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)
    assert list(EXAMPLES.glob("*.ipynb")) == [NOTEBOOK]


@pytest.mark.parametrize("name", SAYS)
def test_example_says_what_it_should(name, tmp_path):
    output = run_python(str(EXAMPLES / name), *ARGUMENTS.get(name, ()), cwd=tmp_path)
    assert [text for text in SAYS[name] if text not in output] == []


def test_the_oracle_example_saves_its_pictures(tmp_path):
    run_python(str(EXAMPLES / "02_oracle_episode.py"), "strip.png", cwd=tmp_path)
    assert (tmp_path / "strip.png").read_bytes().startswith(b"\x89PNG")


def test_a_world_of_ones_own_keeps_the_contract_in_under_100_lines():
    output = run_python("-m", "vlm_envs", "check", "own_world:Own/Bulbs-v0", cwd=EXAMPLES)
    assert "0 skipped" in output
    lines = (EXAMPLES / "own_world.py").read_text(encoding="utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) < 100


def test_an_agent_of_ones_own_plays():
    output = run_python(
        *("-m", "agents", "play", "own_agent:Walker", "VLM/FrozenLake-v0", "--set", "prompt_format=no_think"),
        *("--agent-set", "moves=Down"),
        cwd=EXAMPLES,
    )
    assert "own_agent:Walker responds:\n  <answer>Down</answer>\nCarried out: Down" in output


def test_a_mix_of_ones_own_is_a_recipe(monkeypatch, capsys):
    monkeypatch.chdir(CHECKOUT)
    assert main(["plan", "--recipe", "examples/own_mix.py"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("zoom_and_video with training/recipes/checkpoints/mix_tiny")
    assert "VLM/ZoomQA-v0, counted by" in output


def test_the_notebook_runs_and_is_committed_without_outputs(monkeypatch, tmp_path):
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert 6 <= len(cells) <= 10
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def notebook():
        names = {"__name__": "__main__"}
        for cell in cells:
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
        return names

    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have a loop in this thread
        names = pool.submit(asyncio.run, notebook()).result()
    assert [success.rate for success in names["board"].success.values()] == [1.0, 1.0]
    assert {row.agent for row in names["board"].rows} == {"beeline", "oracle"}
    assert names["tiny"].success.popitem()[1].rate > 0.5
    assert names["again"].success


@pytest.mark.parametrize(
    ("recipe", "says"),
    [("examples/curriculum.py", "usage: "), ("examples/lake_stages.py:lake_stages", "3. accuracy: PPO")],
)
def test_recipes_of_the_examples_are_found(recipe, says, monkeypatch, capsys):
    monkeypatch.chdir(CHECKOUT)
    with pytest.raises(SystemExit, match="0"):
        main(["--recipe", recipe, "--help"])
    assert says in capsys.readouterr().out
