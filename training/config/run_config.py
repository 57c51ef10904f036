"""The configuration of a training run, a frozen dataclass that also defines the command line."""

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
"""Field of a saved world with the result of `stored_arguments`, which no option sets."""


@dataclass(frozen=True, kw_only=True)
class EvalSamplingConfig:
    """Sampling settings of evaluations; None, the default of all fields, uses the setting of training.

    The context length and image scaling are the run's, as they belong to the model rather than to the measurement.

    Attributes:
        temperature: Divides the logits, at least 0.01; or 0 for greedy decoding.
        top_p: Nucleus sampling threshold, in [0.05, 1]; 1 keeps all tokens.
        max_new_tokens: Maximum tokens per response.

    Raises:
        ConfigError: If a value is out of range.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None

    def __post_init__(self) -> None:
        require_drawable(self)

    def over(self, sampling: SamplingConfig) -> SamplingConfig:
        """Returns the sampling settings of training with these settings applied."""
        given = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        return replace(sampling, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run.

    Attributes:
        name: Name of the run, a single folder name; its files are in `<output>/<name>`.
        output: Directory for runs.
        model: Checkpoint directory to start from. None builds the tiny VLM and cold-starts it first.
        reference: Reference checkpoint of the KL penalty (`ppo.kl_coef`), with the same family and vocabulary; None for
            the model that the run starts from.
        worlds: The mix of worlds.
        mix: How the shares of the worlds adapt to their success; fixed by default.
        tokenizer_worlds: Worlds on whose texts the tiny VLM's tokenizer is trained; empty for the run's own.
        num_iterations: Iterations of rollout and update.
        num_groups: Start states per iteration; at times one more or fewer if it is odd and two worlds are a
            pair (the same world as ivgr_grounded and as ivgr_textual), which share start states.
        group_size: Episodes per start state.
        sampling: Sampling settings of training and, unless overridden by `eval_sampling`, of evaluations.
        eval_sampling: Sampling settings of all evaluations; fields that are None use the setting of training. A
            temperature of 0 is greedy.
        rollout: Whether the turns of all episodes are synchronized (`barrier`), or each episode continues once its
            world has answered (`async`), with its own random stream.
        staleness: Updates between the sampling policy and the trained policy: 0, or 1, which samples the next batch
            during the update on the current one. Log-probabilities must then be the sampler's (--ppo.old-logprobs
            sampler) or be corrected (--ppo.importance-cap).
        sampler: Engine that samples responses: the model itself (`transformers`), or `vllm` with a copy of its weights
            that is synchronized after each update. Seeds are then per response.
        vllm: Location and resources of vLLM.
        judge: Turn-level judge rewards.
        algorithm: The algorithm for credit assignment and policy loss, with its own settings. On the command line,
            `--algorithm NAME` switches to another one and keeps shared settings.
        ppo: Settings of the update.
        memory: Memory settings of the update; not applied to a cold start.
        lora: Adapters that are trained in place of the weights; a cold start trains the weights.
        cold_start: The supervised phase, used if `model` is None or by `python -m training cold_start`.
        num_eval_episodes: Held-out test episodes before and after training; items of a benchmark are played at most
            once. The evaluation after training uses the last policy or, with `eval_every`, the one that solved the most
            validation levels.
        first_eval_level: Index of the first test level of these evaluations. After looking at results on some test
            levels, use others for the report; a benchmark's items start at this one.
        eval_every: Iterations between evaluations on validation levels, which also follow the last iteration;
            0 for none. The first policy that solves the most levels is kept in `best/model`.
        num_val_episodes: Episodes per validation.
        checkpoint_every: Iterations between checkpoints; 0 for the last one only.
        record_every: Iterations between recordings of some episodes for the report, with advantages and values;
            0 for none.
        seed: Seed of all random generators.
        device: Device of the models: `"auto"` uses a GPU if there is one, and otherwise the CPU. `docs/scale.md` lists
            what ran on a GPU.
        dtype: Data type of the model weights and of `latest/model`. Optimizers and checkpoints for resuming use
            float32 either way.
        num_threads: CPU threads of torch; 0 keeps torch's default. Threads wait for each other in every operation, so
            on busy cores, several of them make a small model many times slower.
        engine: Engine for several processes started by `accelerate launch`: `ddp` keeps a whole model in each,
            `fsdp2` shards it. `auto` uses the one that accelerate is configured for; `local` is a single process.
        probe_endpoints: Whether to ask judges behind endpoints a short question at startup, so that missing ones
            are reported early. False if they are started later.
        process_timeout_min: Minutes after which a process that waits for another one gives up, and the run ends.
        wandb_project: Weights & Biases project for metrics and evaluations, in addition to TensorBoard, under
            one run id even if the run is resumed; None for none. W&B's environment variables apply
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
            f"Worlds of a mix need distinct names to distinguish results; got {', '.join(names)}. Rename one: "
            "--worlds.1.name NAME.",
        )
        require_at_least(self, 1, "num_groups", "group_size", "process_timeout_min")
        require_at_least(self, 0, "num_iterations", "num_eval_episodes", "num_val_episodes", "num_threads", "seed")
        require_at_least(self, 0, "first_eval_level", "eval_every", "checkpoint_every", "record_every")
        require(
            self.staleness in (0, 1),
            f"--staleness must be 0, or 1 to sample the next batch during the update; got {self.staleness}.",
        )
        require_resumable(self.algorithm)
        require(
            self.wandb_project is None or re.fullmatch(r"[^/\\#?%:]{1,128}", self.wandb_project) is not None,
            f"--wandb-project must be the name of a project, 1 to 128 characters without /, \\, #, ?, %, and :; got "
            f"{self.wandb_project!r}. Set its owner with WANDB_ENTITY.",
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
        """Yields messages about incompatible settings of algorithm, update, and sampling."""
        algorithm, ppo, name = self.algorithm, self.decided().ppo, name_of(self.algorithm)
        if self.group_size < algorithm.min_group_size:
            flag = (algorithm.sibling_setting or "").replace("_", "-")
            what = f"--algorithm.{flag}" if flag else f"--algorithm {name}"
            instead = f", or --algorithm.no-{flag}" if flag else ""
            yield (
                f"{what} compares the episodes of a group, and --group-size {self.group_size} is too small. Use "
                f"--group-size {algorithm.min_group_size} or more{instead}."
            )
        if self.sampling.top_p < 1 and ppo.old_logprobs == "sampler":
            yield (
                f"With --sampling.top-p {self.sampling.top_p}, the sampler's log-probabilities belong to another "
                "distribution than the trainer's. Use --ppo.old-logprobs trainer (and --ppo.importance-cap 2) or "
                "--sampling.top-p 1."
            )
        if self.staleness and algorithm.learns_observations:
            yield (
                f"--algorithm {name} also learns from observations, for which the sampler has no log-probabilities, so "
                "the lag of --staleness 1 cannot be corrected. Use --staleness 0."
            )
        elif self.staleness and ppo.old_logprobs == "trainer" and ppo.importance_cap is None:
            yield (
                "--staleness 1 learns from samples of an earlier policy without a correction. Use "
                "--ppo.importance-cap 2, or --ppo.old-logprobs sampler."
            )
        if algorithm.learns_observations and (ppo.old_logprobs == "sampler" or ppo.importance_cap is not None):
            yield (
                f"--algorithm {name} also learns from observations, for which the sampler has no log-probabilities, so "
                f"these can be neither the ratio's denominator (--ppo.old-logprobs {ppo.old_logprobs}) nor correct it "
                f"(--ppo.importance-cap {ppo.importance_cap}). Use --ppo.old-logprobs trainer and "
                "--ppo.importance-cap None."
            )

    def _length_contradictions(self) -> Iterator[str]:
        """Yields messages about settings for which the run is too short."""
        num_iterations, eval_every = self.num_iterations, self.eval_every
        critic_warmup_iterations = self.algorithm.critic_warmup_iterations
        if self.sampling.temperature == 0 and num_iterations > 0:
            yield (
                "--sampling.temperature 0 is greedy: the episodes of a group are identical, so comparing them is "
                "meaningless, and no algorithm can learn what another response would have earned. Use "
                "--sampling.temperature 1, with --eval-sampling.temperature 0 for greedy evaluations, or "
                "--num-iterations 0 to evaluate only."
            )
        if 0 < num_iterations <= critic_warmup_iterations:
            yield (
                f"--algorithm.critic.warmup-iterations {critic_warmup_iterations} leaves the policy no updates within "
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
        """Yields a message if the policy cannot have a separate reference."""
        if self.reference is not None and self.has_reference and self.lora.rank is not None:
            yield (
                f"--reference {self.reference} is another model than the base of --lora.rank {self.lora.rank}, which "
                "is the reference of adapters. Leave one of them out."
            )

    @property
    def evaluated_sampling(self) -> SamplingConfig:
        """Sampling settings of evaluations."""
        return self.eval_sampling.over(self.sampling)

    @property
    def acts_on_copy(self) -> bool:
        """Whether a copy of the policy samples during the update; vLLM has its own weights."""
        return self.staleness > 0 and self.sampler == "transformers"

    @property
    def keeps_copy(self) -> bool:
        """Whether some iteration starts without a checkpoint, so that a copy of the state is kept in memory."""
        return self.checkpoint_every != 1 and self.num_iterations > 1  # the first begins with one

    @property
    def has_reference(self) -> bool:
        """Whether a KL penalty keeps the policy close to a reference; an algorithm may turn it off."""
        return self.decided().ppo.kl_coef > 0

    def decided(self) -> Self:
        """Returns the run with the update settings that its algorithm overrides applied."""
        return unchecked(self, ppo=decided_update(self.algorithm, self.ppo))

    def to_dict(self) -> dict[str, Any]:
        """Returns the resolved configuration as plain data, with paths as text and arguments of adapted worlds."""
        saved: dict[str, Any] = plain(self)
        directory = Path(self.output) / self.name
        worlds = tuple(_with_adapted(world, directory) for world in saved["worlds"])
        return saved | {"worlds": worlds, "algorithm": saved_algorithm(self.algorithm)}


def _with_adapted(world: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Returns the plain data of a world, with its arguments of `vlm_envs.adapt` if it is adapted."""
    adapted = stored_arguments(world["env_id"], directory)
    return world if adapted is None else {**world, ADAPTED: adapted}


def how_evaluated(sampling: SamplingConfig, evaluation: SamplingConfig) -> str:
    """Describes the sampling settings of evaluations that differ from training; empty if none does."""
    names = {"temperature": "temperature", "top_p": "top-p", "max_new_tokens": "most new tokens"}
    differing = (name for name in names if getattr(evaluation, name) != getattr(sampling, name))
    return ", ".join(f"{names[name]} {getattr(evaluation, name):g}" for name in differing)
