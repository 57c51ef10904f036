"""Everything a run can be told, as frozen dataclasses; the command line is made from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

from agents.hf.sampler import SamplingConfig
from judges.episodes import require_strategy
from judges.rules import rules_of
from training.judge_config import JudgeConfig
from vlm_envs.errors import require
from vlm_envs.vector import VectorWorld, world_vector

Estimator = Literal["bilevel_gae", "token_gae", "turn_gae", "grpo"]


@dataclass(frozen=True, kw_only=True)
class WorldSpec:
    """One world of a training mix.

    Attributes:
        env_id: Registered id.
        kwargs: Arguments of the world; `split` is set by the trainer.
        weight: Share of the mix, relative to the others.
        workers: Where worlds are stepped: `"serial"`, `"thread"` or `"process"`. The grid worlds step in microseconds,
            less than handing them to a thread takes; worlds that are slow, or may hang or crash, belong into processes.
    """

    env_id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    workers: str = "serial"

    def __post_init__(self) -> None:
        require(self.weight > 0, f"weight of {self.env_id} must be positive; got {self.weight}.")
        require("split" not in self.kwargs, "Leave `split` out of a WorldSpec's kwargs; the trainer sets it.")

    @property
    def prompt_format(self) -> str:
        """The strategy the world is played with: its own unless it is told another."""
        registered = gym.spec(self.env_id).kwargs if self.env_id in gym.registry else {}
        default = "grounding_worldmodeling"
        return str(self.kwargs.get("prompt_format", registered.get("prompt_format", default)))

    def make_vector(self, num_envs: int, *, split: str) -> VectorWorld:
        """Returns that many of these worlds, with levels of one split."""
        return world_vector(self.env_id, num_envs, split=split, workers=self.workers, **self.kwargs)

    def answer_kinds(self) -> frozenset[str]:
        """Returns how answers to its questions are compared; nothing where that is not known beforehand."""
        world = gym.make(self.env_id, **self.kwargs).unwrapped
        source = getattr(getattr(world, "dynamics", None), "source", None)
        return frozenset(getattr(source, "answer_kinds", ()))


@dataclass(frozen=True, kw_only=True)
class ColdStartConfig:
    """Supervised learning on oracle episodes, before reinforcement learning.

    Attributes:
        num_steps: Optimiser steps.
        num_first_turn_steps: How many of them, at the start, show first turns only. There the picture is the only
            source of the observation; in later turns it can be copied from one's own prediction.
        batch_size: Episodes per step. Small ones learn to see soonest for the same compute.
        learning_rate: Peak of a cosine schedule with warm-up.
        warmup_steps: Steps of linear warm-up.
        weight_decay: AdamW's weight decay.
        mistake_rate: How often the teacher acts at random; what it writes stays true.
        num_careless_steps: Further steps, at the end, under a teacher that is careless. The policy then starts out
            seeing and writing well but playing badly, and it is for reinforcement learning to find out what pays.
        careless_rate: How often that teacher plans a turn without regard for holes or inner walls.
        careless_learning_rate: Peak learning rate of those steps.
        max_grad_norm: Gradient norm that is clipped to.
        data: Directory of a data set made by `python -m training curate`, imitated in place of the oracle. None for
            the oracle.
    """

    num_steps: int = 800
    num_first_turn_steps: int = 400
    batch_size: int = 16
    learning_rate: float = 1e-3
    warmup_steps: int = 30
    weight_decay: float = 0.01
    mistake_rate: float = 0.0
    num_careless_steps: int = 0
    careless_rate: float = 0.0
    careless_learning_rate: float = 4e-4
    max_grad_norm: float = 1.0
    data: str | None = None

    def __post_init__(self) -> None:
        require(self.num_steps >= 1 and self.batch_size >= 1, "num_steps and batch_size must be at least 1.")
        require(
            0 <= self.num_first_turn_steps <= self.num_steps,
            f"num_first_turn_steps must lie within 0 and num_steps={self.num_steps}; got {self.num_first_turn_steps}.",
        )
        require(self.learning_rate > 0, f"learning_rate must be positive; got {self.learning_rate}.")
        require(0 <= self.mistake_rate <= 1, f"mistake_rate must be within 0 and 1; got {self.mistake_rate}.")
        require(
            self.num_careless_steps >= 0 and (self.num_careless_steps > 0) == (self.careless_rate > 0),
            "num_careless_steps and careless_rate belong together: set both, or neither; got "
            f"{self.num_careless_steps} and {self.careless_rate}.",
        )
        require(
            self.data is None or (self.mistake_rate == 0 and self.num_careless_steps == 0),
            "A data set has its own teacher: leave out mistake_rate, num_careless_steps and careless_rate with data.",
        )
        require(0 <= self.careless_rate <= 1, f"careless_rate must be within 0 and 1; got {self.careless_rate}.")


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig:
    """How credit is assigned.

    Attributes:
        estimator: `"bilevel_gae"` (VAGEN Algorithm 2), `"token_gae"` (Algorithm 1), `"turn_gae"` or `"grpo"`.
        grpo_scale: Whether GRPO divides by the group's standard deviation (`"std"`) or not (`"none"`, Dr.GRPO).
        variant: `"paper"` or `"released"`, of bi-level GAE.
        gamma_turn: Discount between turns.
        lambda_turn: GAE decay between turns.
        gamma_token: Discount between tokens.
        lambda_token: GAE decay between tokens.
        bootstrap_truncated: Whether truncated episodes are worth V of their last state. Right when the budget is an
            accident of sampling; wrong when it is part of the task and the agent is told how much is left (Pardo et
            al. 2018), as in worlds whose prompt counts the turns.
        sibling_baseline: Whether the mean advantage of a row's siblings is subtracted from its own, which takes out
            what a young critic has not learnt about the start state. GRPO compares siblings by itself.
        whiten: Whether advantages are whitened over the batch's generated tokens.

    Raises:
        ConfigError: If the setting would make the chosen estimator inert.
    """

    estimator: Estimator = "bilevel_gae"
    grpo_scale: Literal["std", "none"] = "std"
    variant: Literal["paper", "released"] = "released"
    gamma_turn: float = 0.95
    lambda_turn: float = 0.95
    gamma_token: float = 1.0
    lambda_token: float = 1.0
    bootstrap_truncated: bool = True
    sibling_baseline: bool = False
    whiten: bool = True

    def __post_init__(self) -> None:
        coefficients = (self.gamma_turn, self.lambda_turn, self.gamma_token, self.lambda_token)
        require(all(0 <= c <= 1 for c in coefficients), f"Discounts and decays lie within 0 and 1; got {self}.")
        inert = self.estimator == "bilevel_gae" and self.variant == "released" and set(coefficients) == {1.0}
        require(
            not inert,
            "With every gamma and lambda 1 bi-level GAE is token GAE. Lower gamma_turn or lambda_turn, or choose "
            "estimator='token_gae'.",
        )


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """The update.

    Attributes:
        learning_rate: Of the policy (AdamW).
        critic_learning_rate: Of the critic.
        warmup_iterations: Iterations of linear learning-rate warm-up.
        final_learning_rate: What both rates fall to, linearly over the run, as a fraction of their peaks.
        critic_warmup_iterations: First iterations in which only the critic learns.
        num_epochs: The policy's passes over an iteration's batch.
        num_minibatches: Its optimiser steps per pass.
        critic_num_epochs: The critic's passes over the batch.
        critic_num_minibatches: Its optimiser steps per pass. A regression can take many small steps where a policy
            gradient would drown in noise.
        micro_batch_size: Rows per forward pass; gradients accumulate, results do not depend on it.
        clip_low: Ratio clip below 1.
        clip_high: Ratio clip above 1.
        value_clip: Clip of value changes, in standard deviations of the first returns; None for none.
        entropy_coef: Weight of the entropy bonus.
        kl_coef: Weight of the k1 KL penalty in the reward, against the frozen start policy; 0 leaves the reference
            out altogether.
        aggregation: How token losses are averaged over an optimiser step: per token, per row, or by the constant
            rows x `max_new_tokens` (Dr.GRPO).
        old_logprobs: What the ratio is taken against: `"trainer"` evaluates the policy once more before the update,
            and the gap to the sampler is logged; `"sampler"` saves that pass by using the log-probabilities the
            tokens were drawn with, the exact ones wherever one engine does both.
        importance_cap: Cap of truncated importance sampling for the sampler-trainer gap; None turns it off.
        max_grad_norm: Gradient norm that is clipped to.
        weight_decay: AdamW's weight decay.
    """

    learning_rate: float = 1e-6
    critic_learning_rate: float = 1e-5
    warmup_iterations: int = 0
    final_learning_rate: float = 1.0
    critic_warmup_iterations: int = 0
    num_epochs: int = 1
    num_minibatches: int = 4
    critic_num_epochs: int = 1
    critic_num_minibatches: int = 4
    micro_batch_size: int = 32
    clip_low: float = 0.2
    clip_high: float = 0.2
    value_clip: float | None = 0.5
    entropy_coef: float = 0.0
    kl_coef: float = 0.001
    aggregation: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
    old_logprobs: Literal["trainer", "sampler"] = "trainer"
    importance_cap: float | None = None
    max_grad_norm: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require(self.learning_rate > 0 and self.critic_learning_rate > 0, "Learning rates must be positive.")
        require(
            0 < self.final_learning_rate <= 1,
            f"final_learning_rate is a fraction of the peak, above 0 and at most 1; got {self.final_learning_rate}.",
        )
        require(
            min(self.num_epochs, self.num_minibatches, self.micro_batch_size) >= 1
            and min(self.critic_num_epochs, self.critic_num_minibatches) >= 1,
            "Epochs, minibatches and micro_batch_size must be at least 1.",
        )
        require(0 < self.clip_low < 1 and self.clip_high > 0, "Expected 0 < clip_low < 1 and clip_high > 0.")
        require(
            self.importance_cap is None or self.old_logprobs == "trainer",
            "importance_cap corrects the gap between sampler and trainer, which old_logprobs='sampler' sets to 0. "
            "Use old_logprobs='trainer' or importance_cap=None.",
        )
        require(self.kl_coef >= 0 and self.entropy_coef >= 0, "kl_coef and entropy_coef must not be negative.")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run.

    Attributes:
        name: Name of the run; its files go to `<output>/<name>`.
        output: Directory of all runs.
        model: Checkpoint directory to start from. None builds the tiny VLM and cold-starts it first.
        worlds: The mix of worlds.
        tokenizer_worlds: Worlds whose texts the tiny VLM's tokenizer is trained on; empty for the run's own.
        num_iterations: PPO iterations.
        num_groups: Start states per iteration.
        group_size: Siblings per start state.
        sampling: How responses are drawn, in training and in evaluation.
        judge: Turn-level judge rewards.
        advantage: Credit assignment.
        ppo: The update.
        cold_start: The supervised phase, used when `model` is None or by `python -m training cold_start`.
        num_eval_episodes: Held-out test episodes before and after.
        eval_every: Iterations between evaluations on validation levels; 0 for none.
        num_val_episodes: Episodes of those evaluations.
        checkpoint_every: Iterations between checkpoints; 0 for the last one only.
        seed: Seed of everything.
        device: Where models live: `"auto"` takes a GPU if there is one, else the CPU. The GPU path was not run here.
        dtype: Type of the weights and their optimisers' states; small models need `"float32"`.
        num_threads: CPU threads of torch; 0 leaves torch's own choice.
    """

    name: str
    worlds: tuple[WorldSpec, ...]
    output: str = "runs"
    model: str | None = None
    tokenizer_worlds: tuple[str, ...] = ()
    num_iterations: int = 100
    num_groups: int = 64
    group_size: int = 4
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    advantage: AdvantageConfig = field(default_factory=AdvantageConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    cold_start: ColdStartConfig = field(default_factory=ColdStartConfig)
    num_eval_episodes: int = 256
    eval_every: int = 0
    num_val_episodes: int = 128
    checkpoint_every: int = 10
    seed: int = 0
    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    num_threads: int = 0

    def __post_init__(self) -> None:
        require(bool(self.worlds), "A run needs at least one world.")
        env_ids = [spec.env_id for spec in self.worlds]
        require(
            len(set(env_ids)) == len(env_ids),
            f"Each env_id may occur once among the worlds, for its turns are judged by it; got {env_ids}. Register a "
            "variant under an id of its own.",
        )
        require(
            self.sampling.top_p == 1.0 or self.ppo.old_logprobs == "trainer",
            f"With top_p={self.sampling.top_p} the sampler's log-probabilities are of another distribution than the "
            "trainer's. Use ppo.old_logprobs='trainer' (and ppo.importance_cap) or top_p=1.",
        )
        require(self.num_iterations >= 0, f"num_iterations must not be negative; got {self.num_iterations}.")
        require(self.num_groups >= 1 and self.group_size >= 1, "num_groups and group_size must be at least 1.")
        require(
            self.advantage.estimator != "grpo" or self.group_size >= 2,
            "GRPO compares siblings: with group_size=1 every advantage is 0. Use group_size >= 2.",
        )
        require(
            self.advantage.estimator != "grpo"
            or (not self.advantage.sibling_baseline and not self.ppo.critic_warmup_iterations),
            "GRPO has no critic and compares siblings by itself: set ppo.critic_warmup_iterations=0 and "
            "advantage.sibling_baseline=False with it.",
        )
        require(
            self.num_iterations == 0 or self.ppo.critic_warmup_iterations < self.num_iterations,
            f"ppo.critic_warmup_iterations={self.ppo.critic_warmup_iterations} leaves the policy nothing of "
            f"num_iterations={self.num_iterations}. Lower the first or raise the second.",
        )
        require(
            min(self.num_eval_episodes, self.eval_every, self.num_val_episodes, self.checkpoint_every) >= 0,
            "num_eval_episodes, eval_every, num_val_episodes and checkpoint_every must not be negative.",
        )
        require(
            self.ppo.critic_num_minibatches <= self.num_groups * self.group_size,
            f"critic_num_minibatches={self.ppo.critic_num_minibatches} is more than the rows of an iteration, "
            f"{self.num_groups * self.group_size}.",
        )
        require(
            not self.advantage.sibling_baseline or self.group_size >= 2,
            "sibling_baseline compares siblings: with group_size=1 there are none. Use group_size >= 2.",
        )
        require(
            (self.num_groups * self.group_size) % self.ppo.num_minibatches == 0,
            f"num_groups * group_size = {self.num_groups * self.group_size} rows must divide evenly into "
            f"num_minibatches = {self.ppo.num_minibatches}.",
        )
        for spec in self.worlds:
            self._check_judge(spec)

    def _check_judge(self, spec: WorldSpec) -> None:
        """Refuses judge rewards that no judge can give or the chosen format can never earn."""
        if self.judge.episode is not None:
            require_strategy(self.judge.episode, spec.prompt_format)
        if max(self.judge.grounding_weight, self.judge.worldmodeling_weight, self.judge.repetition_penalty) > 0:
            rules_of(spec.env_id)
        prompt_format = spec.prompt_format
        if self.judge.grounding_weight > 0:
            require(
                "grounding" in prompt_format,
                f"grounding_weight is {self.judge.grounding_weight}, but prompt_format={prompt_format!r} has no "
                "<observation>. Set judge.grounding_weight=0 or choose a grounding format.",
            )
        if self.judge.worldmodeling_weight > 0:
            require(
                "worldmodeling" in prompt_format,
                f"worldmodeling_weight is {self.judge.worldmodeling_weight}, but prompt_format={prompt_format!r} has "
                "no <prediction>. Set judge.worldmodeling_weight=0 or choose a worldmodeling format.",
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the resolved configuration as plain data, paths as text."""
        return asdict(self, dict_factory=lambda items: {k: str(v) if isinstance(v, Path) else v for k, v in items})
