"""The policy that is kept is the one that was best on validation levels, whatever ends a run or begins it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.hf.hf_agent import load_checkpoint
from agents.hf.sampling_config import SamplingConfig
from tests.unit.training.batches import WORLD, run_config
from training.algorithms.algorithm import CriticConfig
from training.algorithms.turn_gae import TurnGAE
from training.checkpoints.checkpoint_files import LATEST, num_iterations_done
from training.checkpoints.checkpoint_state import BEST, BestPolicy, best_policy, save_best
from training.config.run_config import RunConfig
from training.loop import trainer
from training.loop.evaluation import EvaluationResult
from training.loop.interrupts import Rescue
from training.loop.trainer import Trainer
from training.run import train
from vlm_envs.records.run_data import RunReader

PEAK = {1: 0.25, 2: 0.75, 3: 0.5, 4: 0.75}
"""Validation success by iteration: it falls after a peak, and then only comes back to it."""

Weights = dict[str, torch.Tensor]


class Killed(BaseException):
    """What ends a process at once: nothing is saved on the way."""


@pytest.fixture
def config(tiny_directory: Path, tmp_path: Path) -> RunConfig:
    return run_config(
        name="run",
        output=str(tmp_path),
        model=str(tiny_directory),
        num_iterations=4,
        num_eval_episodes=2,
        num_val_episodes=2,
        eval_every=1,
        checkpoint_every=2,
        sampling=SamplingConfig(max_new_tokens=3),
        algorithm=TurnGAE(critic=CriticConfig(num_minibatches=1, learning_rate=1e-3, warmup_iterations=0)),
        num_threads=1,
    )


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[int, Weights]]:
    """Gives validations the success of `PEAK`; returns who plays on each split, by iteration."""
    real, evaluate = Trainer._evaluate, trainer.evaluate
    players: dict[str, dict[int, Weights]] = {"val": {}, "test": {}}
    now = 0

    def at_iteration(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        nonlocal now
        now = self.iteration
        return real(self, *args, **kwargs)

    def watched(agent: Any, spec: Any, *, split: str, **kwargs: Any) -> EvaluationResult:
        players[split][now] = {name: each.clone() for name, each in agent.model.state_dict().items()}
        return evaluate(agent, spec, split=split, **kwargs)

    monkeypatch.setattr(Trainer, "_evaluate", at_iteration)
    monkeypatch.setattr(trainer, "evaluate", watched)
    scripted = property(lambda self: PEAK[now] if self.split == "val" else 0.5)
    monkeypatch.setattr(EvaluationResult, "success", scripted)
    return players


def kept(directory: Path) -> Weights:
    model, _ = load_checkpoint(directory / BEST)
    return dict(model.state_dict())


def same(first: Weights, second: Weights) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def end_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, is_end: Callable[..., bool]) -> None:
    """Ends the process where a call is the one, instead of making it."""
    real = getattr(owner, name)

    def ending(*args: Any, **kwargs: Any) -> Any:
        if is_end(*args, **kwargs):
            raise Killed
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, ending)
    monkeypatch.setattr(Rescue, "save", lambda self, error: None)


def test_the_test_levels_are_played_by_the_policy_that_was_best_on_validation(
    config: RunConfig,
    playing: dict[str, dict[int, Weights]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, replaced = trainer.in_place_of, []

    def watched(absent: Any, present: Any) -> AbstractContextManager[None]:
        replaced.append((dict(absent.state_dict()), dict(present.state_dict())))
        return real(absent, present)

    monkeypatch.setattr(trainer, "in_place_of", watched)
    directory = train(replace(config, worlds=(WORLD, replace(WORLD, name="b"))))
    best = BestPolicy(iteration=2, validation_success=0.75, num_val_episodes=2)
    assert best_policy(directory) == best, "of two that solve as many it is the earlier one"
    assert not same(playing["val"][2], playing["val"][4]), "the policy did learn in between"
    assert same(kept(directory), playing["val"][2])
    assert same(playing["test"][4], playing["val"][2])
    [(absent, present)] = replaced
    assert same(absent, playing["val"][4]) and same(present, playing["val"][2]), "never both on a device"
    evaluations = RunReader(directory).evaluations()
    after = [line for line in evaluations if line["label"] == "after"]
    assert [(line["iteration"], line["policy_iteration"], line["validation_success"]) for line in after] == [
        (4, 2, 0.75)
    ] * 2
    assert not any("policy_iteration" in line for line in evaluations if line["label"] != "after")
    shown = capsys.readouterr().out.splitlines()
    told = "best on validation levels, of iteration 2 (0.750)"
    assert next(line for line in shown if line.startswith("after: ")).endswith(f"over 2 levels, policy {told}")
    assert shown[-1] == f"Best:   {directory / BEST}, {told}"


@pytest.mark.soak
def test_the_last_policy_is_among_those_that_are_chosen_from(
    config: RunConfig, playing: dict[str, dict[int, Weights]]
) -> None:
    directory = train(replace(config, num_iterations=4, eval_every=3))  # after 3 (0.5) and at the end (0.75)
    assert best_policy(directory) == BestPolicy(iteration=4, validation_success=0.75, num_val_episodes=2)
    assert same(playing["test"][4], playing["val"][4])
    assert list(playing["val"]) == [3, 4]


def test_without_validation_it_is_the_last_policy_and_nothing_is_kept(
    config: RunConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = train(replace(config, num_iterations=1, eval_every=0))
    assert not (directory / "best").exists()
    assert not any("policy_iteration" in line for line in RunReader(directory).evaluations())
    assert capsys.readouterr().out.splitlines()[-1] == f"Model:  {directory / 'latest' / 'model'}"


@pytest.mark.parametrize(
    ("end", "saved"),
    [
        pytest.param(
            (trainer, "save_best", lambda _, best, *__: best.iteration == 2),
            0,
            id="before the peak is kept",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            (Trainer, "save", lambda self: self.iteration == 2),
            0,
            id="before its checkpoint",
            marks=pytest.mark.soak,
        ),
        pytest.param((Trainer, "_validate", lambda self, _: self.iteration == 3), 2, id="after its checkpoint"),
        pytest.param(
            (Trainer, "save", lambda self: self.iteration == 4),
            2,
            id="in the end",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_run_killed_after_its_peak_still_knows_it(
    config: RunConfig,
    playing: dict[str, dict[int, Weights]],
    monkeypatch: pytest.MonkeyPatch,
    end: tuple[Any, str, Callable[..., bool]],
    saved: int,
) -> None:
    with monkeypatch.context() as patched:
        end_at(patched, *end)
        with pytest.raises(Killed):
            train(config)
    directory = Path(config.output) / config.name
    assert num_iterations_done(directory / "latest") == saved
    peak = playing["val"][2]
    assert train(config, resume=True) == directory
    assert best_policy(directory) == BestPolicy(iteration=2, validation_success=0.75, num_val_episodes=2)
    assert same(kept(directory), peak)
    assert same(playing["test"][4], peak)
    labels = [line["label"] for line in RunReader(directory).evaluations()]
    assert labels == ["before", "iteration 1", "iteration 2", "iteration 3", "iteration 4", "after"]


@pytest.mark.soak
@pytest.mark.usefixtures("playing")
def test_a_best_policy_that_could_not_be_kept_is_when_the_run_goes_on(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its validation stands, and so does its checkpoint, which the failure left."""

    def full(directory: Path, best: BestPolicy, *rest: Any) -> None:
        if best.iteration == 2:
            raise OSError("No space left on device")
        save_best(directory, best, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(trainer, "save_best", full)
        with pytest.raises(OSError, match="No space left"):
            train(config)
    assert "OSError after 2 iterations: saved as of 2 iterations." in capsys.readouterr().err
    directory = Path(config.output) / config.name
    known = best_policy(directory)
    assert known is not None and known.iteration == 1, "the one before is still there"
    assert best_policy(train(config, resume=True)) == BestPolicy(
        iteration=2, validation_success=0.75, num_val_episodes=2
    )


@pytest.mark.soak
@pytest.mark.usefixtures("playing")
def test_a_run_that_is_extended_keeps_its_best(config: RunConfig) -> None:
    directory = train(replace(config, num_iterations=3))
    before = kept(directory)
    train(config, resume=True)
    assert same(kept(directory), before)
    provenance = json.loads((directory / BEST / "provenance.json").read_text())
    learnt = {name: provenance.pop(name) for name in ("worlds", "sampling")}
    assert provenance == {"run": "run", "iteration": 2, "validation_success": 0.75, "num_val_episodes": 2}
    latest = json.loads((directory / LATEST / "model" / "provenance.json").read_text())
    assert latest == {"run": "run", "iteration": 4, **learnt}, "what both have learnt with"
    assert [world["env_id"] for world in learnt["worlds"]] == [WORLD.env_id]
    assert learnt["sampling"]["max_new_tokens"] == 3


@pytest.mark.soak
@pytest.mark.parametrize(
    "num_iterations",
    [pytest.param(2, id="after its validation"), pytest.param(3, id="later", marks=pytest.mark.soak)],
)
def test_a_best_of_another_number_of_levels_is_superseded(
    config: RunConfig,
    playing: dict[str, dict[int, Weights]],
    capsys: pytest.CaptureFixture[str],
    num_iterations: int,
) -> None:
    """The peak of iteration 2 was on 2 levels; what stands of the last iteration is made again on 3."""
    train(replace(config, num_iterations=num_iterations))
    capsys.readouterr()
    directory = train(replace(config, num_iterations=3, num_val_episodes=3), resume=True)
    assert best_policy(directory) == BestPolicy(
        iteration=num_iterations, validation_success=PEAK[num_iterations], num_val_episodes=3
    )
    assert same(kept(directory), playing["val"][num_iterations])
    told = "The best on validation levels, of iteration 2 (0.750) was on 2 levels, not 3; comparing again."
    assert " ".join(capsys.readouterr().out.split()).count(told) == 1
    made = [(line["label"], line["num_episodes"]) for line in RunReader(directory).evaluations()]
    assert ("iteration 3", 3) in made and made.count((f"iteration {num_iterations}", 3)) == 1


def test_a_best_that_does_not_say_what_it_is_counts_as_none(tmp_path: Path) -> None:
    assert best_policy(tmp_path) is None
    (tmp_path / BEST).mkdir(parents=True)
    (tmp_path / BEST / "provenance.json").write_text('{"iteration": 2')
    assert best_policy(tmp_path) is None
