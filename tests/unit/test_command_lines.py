"""What the five command lines have in common: a mistake is one plain line, and the status is 2."""

import pytest

import agents.__main__
import benchmarks.__main__
import judges.__main__
import training.__main__
import vlm_envs.cli.commands

MAINS = {
    "vlm_envs": vlm_envs.cli.commands.main,
    "agents": agents.__main__.main,
    "benchmarks": benchmarks.__main__.main,
    "judges": judges.__main__.main,
    "training": training.__main__.main,
}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("vlm_envs play VLM/Sokoban-v0 --colors red", "--colors must be one of '24bit', '256', 'none'; got 'red'."),
        ("vlm_envs play VLM/Sokoban-v0 --seed x", "--seed must be a whole number; got 'x'."),
        ("vlm_envs report", "python -m vlm_envs report needs RUN. See python -m vlm_envs report --help"),
        ("vlm_envs report runs --every-s", "--every-s needs a value."),
        ("vlm_envs check Sokoban", "Unknown env 'Sokoban'. Did you mean 'VLM/Sokoban-v0'?"),
        ("agents play", "python -m agents play needs AGENT."),
        ("agents play oracle", "python -m agents play oracle needs ENV_ID, such as VLM/Sokoban-v0: nothing says which"),
        (
            "agents play oracle corridor:Corridor",
            "Unknown env 'corridor:Corridor'. Did you mean 'corridor:Own/Corridor",
        ),
        ("judges score VLM/Sokoban-v0 --state {}", "python -m judges score needs TEXT."),
        ("judges calibrate VLM/Sokoban-v0 --threshold x", "--threshold must be a number; got 'x'."),
        (
            "training sokoban_tiny --algorithm.critic.value-clip x",
            "--algorithm.critic.value-clip must be a number or None; got 'x'.",
        ),
        ("training sokoban_tiny --num-iterations x", "--num-iterations must be a whole number; got 'x'."),
        (
            "training sokoban_tiny --ppo.betas 0.9,0.999",
            "--ppo.betas needs 2 values, with a space between them: --ppo.betas 0.9 0.999.",
        ),
        ("training sokoban_tiny --ppo.betas=0.9", "--ppo.betas needs 2 values"),
        (
            "training sokoban_tiny --algorithm.critic.betas 0.9 0.99",
            "python -m training sokoban_tiny has no option --algorithm.critic.betas. The critic has the policy's "
            "--ppo.betas.",
        ),
        ("benchmarks results --add a --add b", "--add stands 2 times. Give it once, with all of its values."),
        (
            "training sokoban_tiny --num-groups 0 --tokenizer-worlds=a --tokenizer_worlds b",
            "--tokenizer-worlds stands 2 times. Give it once",
        ),
        ("training sokoban_tiny --num-groups 2 --num-groups 0", "--num-groups must be at least 1; got 0."),
        ("vlm_envs check VLM/Sokoban-v0 --set num_boxes=2 --set nu=3", "VLM/Sokoban-v0 cannot be made with nu=3: it"),
    ],
)
def test_a_mistake_is_one_plain_line(words, told, capsys, tmp_path, monkeypatch):
    (tmp_path / "corridor.py").write_text(
        "from vlm_envs.registration import register\nregister('Own/Corridor-v0', 'corridor:Corridor')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    program, *rest = words.split()
    assert MAINS[program](rest) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"error: {told}")
