"""The definition of an experiment: variants of a recipe, seeds, and the claim or baselines to compare with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from training.config.world_spec import WorldSpec, world_names
from training.run_options import find_recipe
from training.stages.stages_config import StagesConfig
from vlm_envs.errors import ConfigError

if TYPE_CHECKING:
    from agents.hf.sampling_config import SamplingConfig
    from training.config.judge_config import JudgeConfig

START = "start"
"""Label of the checkpoint that a claim's variants start from; its only record has seed 0."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One setting, trained once per seed.

    Attributes:
        command: A recipe and its options, as for `python -m training`.
        title: Its name in tables.
        kwargs: World arguments for the test levels of this variant only.
    """

    command: str
    title: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A paper's central claim: its method beats each baseline from the same start, on the same held-out levels.

    Attributes:
        title: The paper's short name.
        text: The claim, in one sentence.
        setting: How it is tested here, and the differences from the paper.
        method: Label of the paper's own method.
        worlds: The test worlds.
        sampling: Sampling settings of the test.
        judge: Judge of test episodes, for `shown`.
        start: The checkpoint that all variants start from, if it is shipped.
        start_command: The recipe and options that produce the start otherwise.
        shown: Measures shown for each variant, with their column headings.
        least_start: Minimum success rate of the start for a verdict.
        num_test_levels: Levels per test world.
    """

    title: str
    text: str
    setting: str
    method: str
    worlds: tuple[WorldSpec, ...]
    sampling: SamplingConfig
    judge: JudgeConfig
    start: str = ""
    start_command: str = ""
    shown: Mapping[str, str] = field(default_factory=dict)
    least_start: float = 0.0
    num_test_levels: int = 256

    def test_worlds(self, kwargs: Mapping[str, Any]) -> tuple[WorldSpec, ...]:
        """Returns the test worlds with a variant's own arguments."""
        names = world_names(self.worlds)
        return tuple(
            replace(spec, kwargs={**spec.kwargs, **kwargs}, name=name)
            for spec, name in zip(self.worlds, names, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Variants trained over the same seeds and compared.

    Attributes:
        name: Name on the command line, and of the folders of its runs and records.
        question: The question it answers.
        variants: Variants by label; records and runs are named `<label>-<seed>`.
        seeds: Seeds of each variant.
        options: Options of every run.
        claim: The claim that the variants test; None for recipes that are compared with their own starts.
        has_baselines: Whether baselines play each run's test levels. Otherwise only learning curves are recorded.
    """

    name: str
    question: str
    variants: Mapping[str, Variant]
    seeds: tuple[int, ...]
    options: str = ""
    claim: Claim | None = None
    has_baselines: bool = False

    def variant(self, label: str) -> Variant:
        """Returns a variant, or for `START` the run that produces a claim's start."""
        if label == START and self.claim is not None:
            return Variant(command=self.claim.start_command, title=START)
        return self.variants[label]

    def words(self, label: str, seed: int) -> list[str]:
        """Returns the recipe and options of a run; `seed` is added to the recipe's seed or that of each stage."""
        words = [*shlex.split(self.variant(label).command), *shlex.split(self.options)]
        recipe, _ = find_recipe(words)
        if recipe is None:
            raise ConfigError(f"{label} of {self.name} is not a recipe: {shlex.join(words)}.")
        made = recipe.made()
        if not isinstance(made, StagesConfig):
            return [*words, "--seed", str(made.seed + seed)]
        seeds = [(f"{stage.option}.seed", str(stage.run.seed + seed)) for stage in made.stages]
        return [*words, *(word for pair in seeds for word in pair)]
