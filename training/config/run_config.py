"""The configuration of a training run, a frozen dataclass from which the command line is made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

import tyro

from agents.hf.sampling_config import SamplingConfig, require_drawable
from agents.vllm.vllm_config import VLLMConfig
from training.algorithms.algorithm import Algorithm
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.shipped import ShippedAlgorithm, name_of
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import JudgeConfig, judge_contradictions
from training.config.processes import EngineName
from training.config.saved_config import plain, require_name, require_resumable, saved_algorithm, unchecked
from training.config.update_config import (
    LoRAConfig,
    MemoryConfig,
    PPOConfig,
    decided_update,
    require_rows_that_fit,
    update_contradictions,
)
from training.config.world_spec import WorldSpec, drawn_pool_contradictions, world_names
from training.mixture.mixture_config import MixConfig, require_room_for_partners
from vlm_envs.adapter.stored import stored_arguments
from vlm_envs.validation import require, require_at_least

ADAPTED = "adapted"
"""Field of a saved world with what `stored_arguments` returns, which no option sets."""


@dataclass(frozen=True, kw_only=True)
class EvalSamplingConfig:
    """How responses are drawn in evaluations; None, which all are by default, is as in training.

    The context and what pictures are scaled to are the run's, for they are the model's rather than the measurement's.

    Attributes:
        temperature: Divides the logits, at least 0.01; or 0, which takes the most likely token.
        top_p: Smallest probability mass kept, in [0.05, 1]; 1 keeps all.
        max_new_tokens: Tokens a response may have.

    Raises:
        ConfigError: If a value is out of range.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None

    def __post_init__(self) -> None:
        require_drawable(self)

    def over(self, sampling: SamplingConfig) -> SamplingConfig:
        """Returns how responses are drawn where those of training are drawn like this."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(sampling, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run.

    Attributes:
        name: Name of the run, one part of a path; its files go to `<output>/<name>`.
        output: Directory of all runs.
        model: Checkpoint directory to start from. None builds the tiny VLM and cold-starts it first.
        reference: Checkpoint that `ppo.kl_coef` holds the policy to, of the same family and vocabulary; None for the
            model that the run starts from.
        worlds: The mix of worlds.
        mix: How the shares of the worlds change with their success; by default not at all.
        tokenizer_worlds: Worlds whose texts the tiny VLM's tokenizer is trained on; empty for the run's own.
        num_iterations: PPO iterations.
        num_groups: Start states per iteration; at times one more or fewer where it is odd and two worlds are a
            pair (the same world as ivgr_grounded and as ivgr_textual), which play each start state together.
        group_size: Siblings per start state.
        sampling: How responses are drawn, in training and, unless `eval_sampling` says otherwise, in evaluation.
        eval_sampling: How responses are drawn in evaluations, before, during and after; None in a field is as in
            training. A temperature of 0 is greedy.
        rollout: Whether the turns of all episodes are in step (`barrier`), or each episode goes on as soon as its world
            has answered (`async`), with a random stream of its own.
        staleness: Updates that the policy is ahead of the one that sampled what it learns from: 0, or 1, which samples
            the next batch beside the update on this one. Log-probabilities are the sampler's then (--ppo.old-logprobs
            sampler), or corrected towards it (--ppo.importance-cap).
        sampler: What samples responses: the model itself (`transformers`), or `vllm` with a copy of its weights that is
            brought up to date after each update. Seeds are then each response's own.
        vllm: Where vLLM samples and what it may take.
        judge: Turn-level judge rewards.
        algorithm: How credit is assigned and the policy's loss taken, with settings of its own. On the command line
            `--algorithm NAME` takes another one; what both have stays.
        ppo: The update.
        memory: What the update does to fit its devices; a cold start is made without.
        lora: Adapters in place of the weights; a cold start trains the weights.
        cold_start: The supervised phase, used when `model` is None or by `python -m training cold_start`.
        num_eval_episodes: Held-out test episodes before and after; of a benchmark each item once at most. After is the
            last policy, or, with `eval_every`, the one that solved most validation levels.
        first_eval_level: Index of the first test level that they are played on. Who has looked at results on some test
            levels reports others; a benchmark's items begin at that one.
        eval_every: Iterations between evaluations on validation levels, which are also made after the last iteration;
            0 for none. The policy that solves most, the first of equals, is kept in `best/model`.
        num_val_episodes: Episodes of those evaluations.
        checkpoint_every: Iterations between checkpoints; 0 for the last one only.
        record_every: Iterations between those whose first episodes are recorded for the report, with advantages and
            values; 0 for none.
        seed: Seed of everything.
        device: Where models live: `"auto"` takes a GPU if there is one, else the CPU. `docs/scale.md` lists
            what ran on one.
        dtype: Type of the weights that models compute with, and that `latest/model` has. What the optimisers step is
            float32 either way, and so is what a run goes on from.
        num_threads: CPU threads of torch; 0 leaves torch's own choice. Several wait for each other at every operation:
            where another program takes one's core, a small model is many times slower by them.
        engine: What several processes that `accelerate launch` starts train on: `ddp` keeps a whole model in each,
            `fsdp2` spreads it over them. `auto` takes what accelerate is configured for; `local`, one process alone.
        probe_endpoints: Whether models behind endpoints that judge are asked a short question at start-up, so that one
            that does not answer is told then. False where they are started later.
        process_timeout_min: Minutes after which a process that waits for another gives it up, and the run ends.
        wandb_project: Weights & Biases project that metrics and evaluations are logged to beside TensorBoard, under
            one run id also when the run is resumed; None for none. W&B's environment variables hold
            (`WANDB_MODE=offline`, `WANDB_ENTITY`, `WANDB_BASE_URL`).
    """

    name: str
    worlds: tuple[WorldSpec, ...]
    output: str = "runs"
    model: str | None = None
    reference: str | None = None
    mix: MixConfig = field(default_factory=MixConfig)
    tokenizer_worlds: tuple[str, ...] = ()
    num_iterations: int = 100
    num_groups: int = 64
    group_size: int = 4
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    eval_sampling: EvalSamplingConfig = field(default_factory=EvalSamplingConfig)
    rollout: Literal["barrier", "async"] = "barrier"
    staleness: int = 0
    sampler: Literal["transformers", "vllm"] = "transformers"
    vllm: VLLMConfig = field(default_factory=VLLMConfig)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    algorithm: tyro.conf.AvoidSubcommands[ShippedAlgorithm | Algorithm] = field(default_factory=BilevelGAE)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    lora: LoRAConfig = field(default_factory=LoRAConfig)
    cold_start: ColdStartConfig = field(default_factory=ColdStartConfig)
    num_eval_episodes: int = 256
    first_eval_level: int = 0
    eval_every: int = 0
    num_val_episodes: int = 128
    checkpoint_every: int = 10
    record_every: int = 10
    seed: int = 0
    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    num_threads: int = 0
    engine: EngineName = "auto"
    probe_endpoints: bool = True
    process_timeout_min: int = 60
    wandb_project: str | None = None

    def __post_init__(self) -> None:
        require_name(self)
        require(bool(self.worlds), "A run needs at least one world.")
        names = world_names(self.worlds)
        require(
            len(set(names)) == len(names),
            f"Worlds of a mix need distinct names, by which results are told apart; got {', '.join(names)}. Give one "
            "another: --worlds.1.name NAME.",
        )
        require_at_least(self, 1, "num_groups", "group_size", "process_timeout_min")
        require_at_least(self, 0, "num_iterations", "num_eval_episodes", "num_val_episodes", "num_threads", "seed")
        require_at_least(self, 0, "first_eval_level", "eval_every", "checkpoint_every", "record_every")
        require(
            self.staleness in (0, 1),
            f"--staleness must be 0, or 1 to sample the next batch beside the update; got {self.staleness}.",
        )
        require_resumable(self.algorithm)
        require(
            self.wandb_project is None or re.fullmatch(r"[^/\\#?%:]{1,128}", self.wandb_project) is not None,
            f"--wandb-project must be the name of a project, 1 to 128 characters without /, \\, #, ?, % and :; got "
            f"{self.wandb_project!r}. Whose it is says WANDB_ENTITY.",
        )
        messages = [
            *self._algorithm_contradictions(),
            *update_contradictions(self.algorithm, self.ppo),
            *self._length_contradictions(),
            *self._reference_contradictions(),
            *judge_contradictions(self.judge, self.worlds),
            *drawn_pool_contradictions(self.worlds),
        ]
        require(not messages, "\n".join(messages))
        imitates = self.model is None and self.cold_start.data is None and self.cold_start.num_steps > 0
        require_room_for_partners(
            self.worlds,
            num_groups=self.num_groups,
            cold_start_batch_size=self.cold_start.batch_size if imitates else None,
        )
        critic = self.algorithm.critic_config
        require_rows_that_fit(
            num_groups=self.num_groups,
            group_size=self.group_size,
            num_minibatches=self.decided().ppo.num_minibatches,
            critic_num_minibatches=1 if critic is None else critic.num_minibatches,
        )

    def _algorithm_contradictions(self) -> Iterator[str]:
        """Yields what an algorithm, its update and its samples cannot do together."""
        algorithm, ppo, name = self.algorithm, self.decided().ppo, name_of(self.algorithm)
        if self.group_size < algorithm.min_group_size:
            flag = (algorithm.sibling_setting or "").replace("_", "-")
            what = f"--algorithm.{flag}" if flag else f"--algorithm {name}"
            instead = f", or --algorithm.no-{flag}" if flag else ""
            yield (
                f"{what} compares siblings, and with --group-size {self.group_size} there are too few. Use "
                f"--group-size {algorithm.min_group_size} or more{instead}."
            )
        if self.sampling.top_p < 1 and ppo.old_logprobs == "sampler":
            yield (
                f"With --sampling.top-p {self.sampling.top_p} the sampler's log-probabilities are of another "
                "distribution than the trainer's. Use --ppo.old-logprobs trainer (and --ppo.importance-cap 2) or "
                "--sampling.top-p 1."
            )
        if self.staleness and algorithm.learns_observations:
            yield (
                f"--algorithm {name} learns from observations here, too, for which the sampler has no log-probability: "
                "what --staleness 1 lets the policy be ahead of it cannot be corrected. Use --staleness 0."
            )
        elif self.staleness and ppo.old_logprobs == "trainer" and ppo.importance_cap is None:
            yield (
                "--staleness 1 learns from what an earlier policy said, and nothing corrects for it. Use "
                "--ppo.importance-cap 2, or --ppo.old-logprobs sampler."
            )
        if algorithm.learns_observations and (ppo.old_logprobs == "sampler" or ppo.importance_cap is not None):
            yield (
                f"--algorithm {name} learns from observations here, too, for which the sampler has no log-probability: "
                f"the ratio cannot be taken against it (--ppo.old-logprobs {ppo.old_logprobs}) nor corrected towards "
                f"it (--ppo.importance-cap {ppo.importance_cap}). Use --ppo.old-logprobs trainer and "
                "--ppo.importance-cap None."
            )

    def _length_contradictions(self) -> Iterator[str]:
        """Yields what a run of this many iterations leaves no room for."""
        num_iterations, eval_every = self.num_iterations, self.eval_every
        critic_warmup_iterations = self.algorithm.critic_warmup_iterations
        if self.sampling.temperature == 0 and num_iterations > 0:
            yield (
                "--sampling.temperature 0 always takes the likeliest token: the siblings of a group are the same "
                "episode, comparing them says nothing, and no algorithm learns what another response would have "
                "earned. Use --sampling.temperature 1, with --eval-sampling.temperature 0 for greedy evaluations, or "
                "--num-iterations 0 to evaluate only."
            )
        if 0 < num_iterations <= critic_warmup_iterations:
            yield (
                f"--algorithm.critic.warmup-iterations {critic_warmup_iterations} leaves the policy nothing of "
                f"--num-iterations {num_iterations}. Lower the first or raise the second."
            )
        if 0 < eval_every >= num_iterations:
            yield (
                f"--eval-every must be less than --num-iterations ({num_iterations}), or 0; got {eval_every}. The last "
                "iteration is always evaluated."
            )
        if eval_every > 0 and self.num_val_episodes == 0:
            yield f"--eval-every {eval_every} evaluates --num-val-episodes 0. Raise the second or use --eval-every 0."

    def _reference_contradictions(self) -> Iterator[str]:
        """Yields why the policy cannot be held to a reference of its own."""
        if self.reference is not None and self.has_reference and self.lora.rank is not None:
            yield (
                f"--reference {self.reference} is another model than the one that --lora.rank {self.lora.rank} adapts, "
                "which is what adapters are held to. Leave one of them out."
            )

    @property
    def evaluated_sampling(self) -> SamplingConfig:
        """How responses are drawn in evaluations."""
        return self.eval_sampling.over(self.sampling)

    @property
    def acts_on_copy(self) -> bool:
        """Whether a copy of the policy samples while that is trained; vLLM has weights of its own."""
        return self.staleness > 0 and self.sampler == "transformers"

    @property
    def keeps_copy(self) -> bool:
        """Whether some iteration begins without a checkpoint of that moment, so that a copy of the state is kept."""
        return self.checkpoint_every != 1 and self.num_iterations > 1  # the first begins with one

    @property
    def has_reference(self) -> bool:
        """Whether a KL penalty holds the policy to a reference; an algorithm may decide that there is none."""
        return self.decided().ppo.kl_coef > 0

    def decided(self) -> Self:
        """Returns the run with the update as its algorithm takes it: what that decides itself in place of `ppo`'s."""
        return unchecked(self, ppo=decided_update(self.algorithm, self.ppo))

    def to_dict(self) -> dict[str, Any]:
        """Returns the resolved configuration as plain data, paths as text; adapted worlds with their arguments."""
        saved: dict[str, Any] = plain(self)
        directory = Path(self.output) / self.name
        worlds = tuple(_with_adapted(world, directory) for world in saved["worlds"])
        return saved | {"worlds": worlds, "algorithm": saved_algorithm(self.algorithm)}


def _with_adapted(world: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Returns the plain data of a world with the arguments of `vlm_envs.adapt`, if that made it."""
    adapted = stored_arguments(world["env_id"], directory)
    return world if adapted is None else {**world, ADAPTED: adapted}


def how_evaluated(sampling: SamplingConfig, evaluation: SamplingConfig) -> str:
    """Returns in words how evaluations are sampled, as far as training is not; empty where they are alike."""
    names = {"temperature": "temperature", "top_p": "top-p", "max_new_tokens": "most new tokens"}
    differing = (name for name in names if getattr(evaluation, name) != getattr(sampling, name))
    return ", ".join(f"{names[name]} {getattr(evaluation, name):g}" for name in differing)
