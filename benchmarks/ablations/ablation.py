"""What an ablation is: a claim of a paper, its method, and the rivals that it is said to beat, from one start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agents.hf.sampling_config import SamplingConfig
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec, world_names
from training.curation.curation_config import CurateConfig
from training.pools.pool_config import PoolConfig
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import Stage, StageRun, StagesConfig
from vlm_envs.validation import require

START = "start"
"""What a start's results are called, among those of the arms."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way of training, once a seed.

    Attributes:
        name: What its runs and results are called.
        title: What it is, for people.
        stages: Its reinforcement learning, in order, from the ablation's start.
        kwargs: Arguments of the test worlds that this arm alone has, such as what enlarges crops.
    """

    name: str
    title: str
    stages: tuple[Stage, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_episodes(self) -> int:
        """Episodes that it trains on."""
        return sum(run.num_iterations * run.num_groups * run.group_size for run in self.runs)

    @property
    def runs(self) -> Iterator[RunConfig]:
        """Its stages as runs."""
        return (stage.run for stage in self.stages if isinstance(stage.run, RunConfig))

    def placed(self, start: Path, folder: Path, *, seed: int) -> StagesConfig:
        """Returns how it is trained with one seed; on one thread, and evaluated by the ablation alone.

        Args:
            start: Checkpoint that it goes on from.
            folder: Directory of the ablation's runs.
            seed: Of its first stage; each later one has a seed, and so training levels, of its own.
        """
        stages = tuple(_placed(stage, seed=100 * number + seed) for number, stage in enumerate(self.stages))
        return StagesConfig(name=f"{self.name}-{seed}", output=str(folder), model=str(start), stages=stages)


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """A paper's central claim as runs that differ in what the claim is about, and in nothing else.

    All arms train on as many episodes, from one start, and play the same test levels.

    Attributes:
        name: Of the paper, as it is chosen.
        title: Of the paper, for people.
        claim: What the paper says, in one sentence.
        setting: How it is asked in small, and what is not as in the paper.
        method: Name of the paper's own arm, which all others are compared with.
        arms: All of them.
        start: A checkpoint that ships, or the stages that make one, once for all arms and seeds.
        worlds: The test worlds.
        sampling: How responses are drawn in a test.
        judge: Who says more of test episodes than whether they were solved.
        shown: What else is told of each arm: a name among the results' measures, and what the page calls it.
        least_start: Share of test levels that the start has to solve, or the claim cannot be told.
        num_test_levels: Of each test world.
    """

    name: str
    title: str
    claim: str
    setting: str
    method: str
    arms: tuple[Arm, ...]
    start: str | StagesConfig
    worlds: tuple[WorldSpec, ...]
    sampling: SamplingConfig
    judge: JudgeConfig
    shown: Mapping[str, str] = field(default_factory=dict)
    least_start: float = 0.0
    num_test_levels: int = 256

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        require(len({START, *names}) == len(names) + 1, f"Arms of {self.name} need distinct names; got {names}.")
        require(self.method in names, f"The method of {self.name} is {self.method!r}, which is none of its arms.")
        require(len(names) > 1, f"{self.name} has nothing that its method could beat.")
        lengths = {arm.name: arm.num_episodes for arm in self.arms}
        require(len({*lengths.values()}) == 1, f"Arms of {self.name} do not train on as many episodes: {lengths}.")

    @property
    def rivals(self) -> tuple[Arm, ...]:
        """The arms that the method is said to beat."""
        return tuple(arm for arm in self.arms if arm.name != self.method)

    @property
    def world_names(self) -> tuple[str, ...]:
        """What results call the test worlds."""
        return world_names(self.worlds)

    def arm(self, name: str) -> Arm:
        """Returns the arm of a name."""
        return next(arm for arm in self.arms if arm.name == name)

    def test_worlds(self, arm: Arm | None) -> tuple[WorldSpec, ...]:
        """Returns the test worlds as an arm plays them; None for the start."""
        kwargs = {} if arm is None else arm.kwargs
        return tuple(
            replace(spec, kwargs={**spec.kwargs, **kwargs}, name=name)
            for spec, name in zip(self.worlds, self.world_names, strict=True)
        )

    def placed_start(self, folder: Path) -> StagesConfig | None:
        """Returns how the start is made; None for one that ships."""
        if isinstance(self.start, str):
            return None
        stages = tuple(_placed(stage, seed=number) for number, stage in enumerate(self.start.stages))
        return replace(self.start, name=START, output=str(folder), stages=stages)

    def quick(self) -> Ablation:
        """Returns it cut to what shows that everything runs, and nothing more."""
        start = self.start if isinstance(self.start, str) else replace(self.start, stages=_cut(self.start.stages))
        arms = tuple(replace(arm, stages=_cut(arm.stages)) for arm in self.arms)
        return replace(self, start=start, arms=arms, num_test_levels=4)


def _placed(stage: Stage, *, seed: int) -> Stage:
    """Returns a stage of a seed, on one thread; nothing of it is evaluated on the way."""
    run = stage.run
    if isinstance(run, RunConfig):
        run = replace(run, seed=seed, device="cpu", num_threads=1, num_eval_episodes=0, eval_every=0, record_every=0)
    elif isinstance(run, SFTConfig):
        run = replace(run, seed=seed, device="cpu", num_threads=1)
    else:
        run = replace(run, seed=seed)
    return replace(stage, run=run)


def _cut(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(replace(stage, run=_cut_run(stage.run)) for stage in stages)


def _cut_run(run: StageRun) -> StageRun:
    if isinstance(run, CurateConfig):
        return replace(run, num_samples=8)
    if isinstance(run, SFTConfig):
        return replace(run, num_steps=2, num_epochs=SFTConfig.num_epochs)
    cold_start = replace(
        run.cold_start,
        num_steps=min(4, run.cold_start.num_steps),
        num_first_turn_steps=min(1, run.cold_start.num_first_turn_steps),
        batch_size=2,
    )
    return replace(
        run,
        worlds=tuple(replace(spec, pool=_cut_pool(spec.pool)) for spec in run.worlds),
        num_iterations=min(2, run.num_iterations),
        group_size=2,
        cold_start=cold_start,
    )


def _cut_pool(pool: PoolConfig | None) -> PoolConfig | None:
    """Returns a pool of few levels, none of which is played first."""
    if pool is None:
        return None
    return replace(pool, draw=6, attempts=0, min_pass_rate=None, max_pass_rate=None)
