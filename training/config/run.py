"""Everything a run can be told, as frozen dataclasses; the command line is made from them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agents.hf.sampling import SamplingConfig
from judges.episode_rewards.episodes import require_strategy
from judges.state_text.rules import has_rules
from training.config.inert import refuse_inert
from training.config.judges import JudgeConfig
from training.config.places import require_name
from training.config.rows import require_rows_that_fit
from training.config.shares import require_room_for_partners
from vlm_envs.arguments.ranges import field_name, require_above, require_at_least, require_between
from vlm_envs.errors import ConfigError, WorkerError, require, require_choice
from vlm_envs.registration import make, registered_name
from vlm_envs.vector.env import WORKER_KINDS, VectorWorld
from vlm_envs.vector.make import world_vector

if TYPE_CHECKING:
    from training.algorithms.losses import KlEstimator  # torch, which an error in the options must not wait for

NUM_STARTS = 3
"""How often worlds are made whose workers do not come up, before they are given up."""

_logger = logging.getLogger(__name__)

Estimator = Literal["bilevel_gae", "token_gae", "turn_gae", "grpo"]


@dataclass(frozen=True, kw_only=True)
class WorldSpec:
    """One world of a training mix.

    Attributes:
        env_id: Registered id, with or without the module that registers it in front: `my_module:My/World-v0`.
        kwargs: Arguments of the world; `split` is set by the trainer.
        weight: Share of the mix, relative to the others. After every iteration a world has played its share of all
            groups so far, within 1 (2 beside iVGR's partners): what one rounds off, the next ones make up.
        name: What logs, evaluations and reports call it. None for its id; where the id occurs more than once, with the
            arguments in which it differs from the others.
        workers: Where worlds are stepped: `"serial"`, `"thread"` or `"process"`. The grid worlds step in microseconds,
            less than handing them to a thread takes; worlds that are slow, or may hang or crash, belong in processes.
    """

    env_id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    name: str | None = None
    workers: str = "serial"

    def __post_init__(self) -> None:
        registered_name(self.env_id)
        require_above(self, 0, "weight")
        require_choice(field_name(self, "workers"), self.workers, WORKER_KINDS)
        require("split" not in self.kwargs, "Leave `split` out of a WorldSpec's kwargs; the trainer sets it.")

    @property
    def prompt_format(self) -> str:
        """The strategy the world is played with: its own unless it is told another."""
        if "prompt_format" in self.kwargs:
            return str(self.kwargs["prompt_format"])
        world = make(self.env_id, **self.kwargs)
        try:
            return str(getattr(world.unwrapped, "prompt_format", ""))
        finally:
            world.close()

    def make_vector(self, num_envs: int, *, split: str) -> VectorWorld:
        """Returns that many of these worlds, with levels of one split.

        Raises:
            WorkerError: If a worker dies or hangs while it makes them, three times in a row.
        """
        for _ in range(NUM_STARTS - 1):
            try:
                return world_vector(self.env_id, num_envs, split=split, workers=self.workers, **self.kwargs)
            except WorkerError as error:
                _logger.warning("%s Worlds of %s are made anew.", error, self.env_id)
        return world_vector(self.env_id, num_envs, split=split, workers=self.workers, **self.kwargs)

    def try_vector(self, num_envs: int, *, split: str) -> VectorWorld | None:
        """Returns what `make_vector` does, or None where it cannot: for those who can do without these worlds."""
        try:
            return self.make_vector(num_envs, split=split)
        except WorkerError as error:
            _logger.warning("%s %d worlds of %s are left out.", error, num_envs, self.env_id)
            return None

    def num_levels(self, split: str) -> int | None:
        """Returns how many levels a split has where they are listed, as in a benchmark; None where they are drawn."""
        world = make(self.env_id, split=split, **self.kwargs)
        try:
            found: int | None = getattr(world.unwrapped, "num_levels", None)
        finally:
            world.close()
        return found

    def has_level(self, split: str) -> bool:
        """Returns whether a split has any level; a data set may have none of it, a benchmark none to train on."""
        if not {"dataset", "source"} & set(self.kwargs):
            return True
        with closing(make(self.env_id, **self.kwargs)) as world:
            source = getattr(getattr(world.unwrapped, "dynamics", None), "source", None)
            num_samples = getattr(source, "num_samples", None)
            return num_samples is None or num_samples(split) > 0

    def answer_kinds(self) -> frozenset[str]:
        """Returns how answers to its questions are compared; nothing where that is not known beforehand."""
        with closing(make(self.env_id, **self.kwargs)) as world:
            source = getattr(getattr(world.unwrapped, "dynamics", None), "source", None)
            return frozenset(getattr(source, "answer_kinds", ()))


def world_names(specs: Sequence[WorldSpec]) -> tuple[str, ...]:
    """Returns what logs call each world of a mix; one id may occur as often as one likes.

    Args:
        specs: The worlds.

    Returns:
        The name a spec gives itself, or its env id; where an id occurs more than once, with the arguments that tell
        its entries apart, such as `VLM/FrozenLake-v0 (size=8)`, and a number where nothing does.
    """
    names: list[str] = []
    for spec in specs:
        alike = [each for each in specs if each.env_id == spec.env_id and each.name is None]
        telling = [
            f"{key}={value}"
            for key, value in spec.kwargs.items()
            if any(each.kwargs.get(key) != value for each in alike)
        ]
        name = spec.name or (f"{spec.env_id} ({', '.join(telling)})" if telling else spec.env_id)
        names.append(name)
    return tuple(
        f"{name} #{names[: index + 1].count(name)}" if spec.name is None and names.count(name) > 1 else name
        for index, (spec, name) in enumerate(zip(specs, names, strict=True))
    )


@dataclass(frozen=True, kw_only=True)
class ColdStartConfig:
    """Supervised learning on oracle episodes, before reinforcement learning.

    Attributes:
        num_steps: Optimiser steps. 0 for none: reinforcement learning then starts from an untrained model.
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
        max_nonfinite_steps: Steps in a row whose gradients may be infinite or NaN. None of them is taken; the last
            one ends the cold start, which is saved as it stands.
        data: Directory of a data set made by `python -m training curate`, imitated in place of the oracle. None for
            the oracle.
        start_from: Checkpoint directory that goes on learning, any of a supported family; None for a tiny VLM of
            random weights. It keeps its own tokenizer.
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
    max_nonfinite_steps: int = 5
    data: str | None = None
    start_from: str | None = None

    def __post_init__(self) -> None:
        require_at_least(
            self, 0, "num_steps", "num_first_turn_steps", "num_careless_steps", "warmup_steps", "weight_decay"
        )
        require_at_least(self, 1, "batch_size", "max_nonfinite_steps")
        require_above(self, 0, "learning_rate", "careless_learning_rate", "max_grad_norm")
        require_between(self, 0, 1, "mistake_rate", "careless_rate")
        require(
            self.num_steps == 0 or self.num_first_turn_steps <= self.num_steps,
            f"{field_name(self, 'num_first_turn_steps')} must be at most {field_name(self, 'num_steps')}, which is "
            f"{self.num_steps}; got {self.num_first_turn_steps}.",
        )
        require(
            (self.num_careless_steps > 0) == (self.careless_rate > 0),
            "--cold-start.num-careless-steps and --cold-start.careless-rate belong together: set both, or neither; got "
            f"{self.num_careless_steps} and {self.careless_rate}.",
        )
        require(
            self.data is None or (self.mistake_rate == 0 and self.num_careless_steps == 0),
            "--cold-start.data has its own teacher: leave out --cold-start.mistake-rate, "
            "--cold-start.num-careless-steps and --cold-start.careless-rate.",
        )


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig:
    """How credit is assigned.

    Attributes:
        estimator: `"bilevel_gae"` (VAGEN Algorithm 2), `"token_gae"` (Algorithm 1), `"turn_gae"` or `"grpo"`.
        grpo_scale: Whether GRPO divides by the group's standard deviation (`"std"`) or not (`"none"`, Dr.GRPO).
        variant: `"paper"` (Algorithm 2) or `"released"` (the public code), of bi-level GAE.
        gamma_turn: Discount between turns.
        lambda_turn: GAE decay between turns.
        gamma_token: Discount between tokens.
        lambda_token: GAE decay between tokens.
        bootstrap_truncated: Whether truncated episodes are worth V of their last state, read behind their final
            observation. Right when the budget is an accident of sampling; wrong when it is part of the task and the
            agent is told how much is left (Pardo et al. 2018), as in worlds whose prompt counts the turns.
        sibling_baseline: Whether the mean advantage of a row's siblings is subtracted from its own, which takes out
            what a young critic has not learnt about the start state. GRPO compares siblings by itself.
        reward_placement: Where token GAE puts rewards: each turn's on its own last token (`"turn"`), or all of them on
            the last token of the row (`"trajectory"`: VAGEN-Base, Algorithm 1, line 16).
        mask: What token GAE learns from: the tokens that were `"generated"`, or `"all"`, observations included, as if
            the policy had said them ("vanilla PPO" of VAGEN, section 3, which the paper finds to fail). See
            `training.batch.with_observations_as_actions`.
        whiten: Whether advantages are whitened over the batch's generated tokens. None, the default, does so for the
            estimators with a critic; GRPO scales within groups and cannot.

    Raises:
        ConfigError: If the setting would make the chosen estimator inert.
    """

    estimator: Estimator = "bilevel_gae"
    grpo_scale: Literal["std", "none"] = "std"
    variant: Literal["paper", "released"] = "paper"
    gamma_turn: float = 0.95
    lambda_turn: float = 0.95
    gamma_token: float = 1.0
    lambda_token: float = 1.0
    bootstrap_truncated: bool = True
    sibling_baseline: bool = False
    reward_placement: Literal["turn", "trajectory"] = "turn"
    mask: Literal["generated", "all"] = "generated"
    whiten: bool | None = None

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "gamma_turn", "lambda_turn", "gamma_token", "lambda_token")
        coefficients = (self.gamma_turn, self.lambda_turn, self.gamma_token, self.lambda_token)
        inert = self.estimator == "bilevel_gae" and self.variant == "released" and set(coefficients) == {1.0}
        require(
            not inert,
            "With every gamma and lambda 1 bi-level GAE is token GAE. Lower --advantage.gamma-turn or "
            "--advantage.lambda-turn, or choose --advantage.estimator token_gae.",
        )

    @property
    def bootstraps(self) -> bool:
        """Whether V is read after the final observation of truncated episodes."""
        return self.bootstrap_truncated and self.estimator != "grpo"

    @property
    def reads_turn_ends(self) -> bool:
        """Whether V is read, and so has to be learnt, at the ends of turns."""
        return self.estimator == "bilevel_gae" and self.variant == "paper"

    @property
    def whitens(self) -> bool:
        """Whether advantages are whitened, with the default resolved."""
        return self.estimator != "grpo" if self.whiten is None else self.whiten


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """The update.

    Attributes:
        learning_rate: Of the policy (AdamW).
        critic_learning_rate: Of the critic.
        warmup_iterations: Iterations in which the policy's rate rises linearly to its peak, after the critic's own.
            AdamW's first steps go by the sign of the first gradients, at the full rate, while advantages are at their
            noisiest. Ten are what verl's recipe of DAPO takes; verl's own default is none.
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
        kl_coef: Weight of the KL penalty, against the frozen start policy; 0 leaves the reference out altogether.
        kl_placement: Where the penalty is: in the `"reward"` of each token (VAGEN), or in the `"loss"`, with a gradient
            of its own (GRPO; Argos, equation 11).
        kl_estimator: How it is estimated from a sampled token; see `training.algorithms.losses.kl_penalty`. None is k1
            in the reward and k3 in the loss. k1 in the loss has expected gradient 0 and is refused.
        aggregation: How token losses are averaged over an optimiser step: per token, per row, or by the constant
            rows x `max_new_tokens` (Dr.GRPO).
        old_logprobs: What the ratio is taken against: `"trainer"` evaluates the policy once more before the update,
            and the gap to the sampler is logged; `"sampler"` saves that pass by using the log-probabilities the
            tokens were drawn with, the exact ones wherever one engine does both.
        importance_cap: Cap of truncated importance sampling for the sampler-trainer gap; None turns it off.
        max_grad_norm: Gradient norm that is clipped to.
        max_nonfinite_steps: Steps in a row whose gradients may be infinite or NaN, of policy and critic apart. None of
            them is taken; the last one ends the run.
        weight_decay: AdamW's weight decay.
    """

    learning_rate: float = 1e-6
    critic_learning_rate: float = 1e-5
    warmup_iterations: int = 10
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
    kl_placement: Literal["reward", "loss"] = "reward"
    kl_estimator: Literal["k1", "k2", "k3"] | None = None
    aggregation: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
    old_logprobs: Literal["trainer", "sampler"] = "trainer"
    importance_cap: float | None = None
    max_grad_norm: float = 1.0
    max_nonfinite_steps: int = 5
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_above(self, 0, "learning_rate", "critic_learning_rate", "max_grad_norm", "clip_high")
        require_above(self, 0, "value_clip", "importance_cap")
        require_between(self, 0, 1, "final_learning_rate", includes=(False, True))
        require_between(self, 0, 1, "clip_low", includes=(False, False))
        require_at_least(self, 1, "num_epochs", "num_minibatches", "critic_num_epochs", "critic_num_minibatches")
        require_at_least(self, 1, "micro_batch_size", "max_nonfinite_steps")
        require_at_least(self, 0, "warmup_iterations", "critic_warmup_iterations")
        require_at_least(self, 0, "kl_coef", "entropy_coef", "weight_decay")
        require(
            self.importance_cap is None or self.old_logprobs == "trainer",
            "--ppo.importance-cap corrects the gap between sampler and trainer, which --ppo.old-logprobs sampler sets "
            "to 0. Use --ppo.old-logprobs trainer or --ppo.importance-cap None.",
        )

    @property
    def kl_formula(self) -> KlEstimator:
        """The estimator of the KL penalty, with the default resolved."""
        return self.kl_estimator or ("k1" if self.kl_placement == "reward" else "k3")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run.

    Attributes:
        name: Name of the run, one part of a path; its files go to `<output>/<name>`.
        output: Directory of all runs.
        model: Checkpoint directory to start from. None builds the tiny VLM and cold-starts it first.
        worlds: The mix of worlds.
        tokenizer_worlds: Worlds whose texts the tiny VLM's tokenizer is trained on; empty for the run's own.
        num_iterations: PPO iterations.
        num_groups: Start states per iteration; at times one more or fewer, where iVGR's partners share an odd number.
        group_size: Siblings per start state.
        sampling: How responses are drawn, in training and in evaluation.
        judge: Turn-level judge rewards.
        advantage: Credit assignment.
        ppo: The update.
        cold_start: The supervised phase, used when `model` is None or by `python -m training cold_start`.
        num_eval_episodes: Held-out test episodes before and after; of a benchmark each item once at most.
        eval_every: Iterations between evaluations on validation levels; 0 for none.
        num_val_episodes: Episodes of those evaluations.
        checkpoint_every: Iterations between checkpoints; 0 for the last one only.
        record_every: Iterations between those whose first episodes are recorded for the report, with advantages and
            values; 0 for none.
        seed: Seed of everything.
        device: Where models live: `"auto"` takes a GPU if there is one, else the CPU. No GPU was at hand; the tests
            update, sample and cold-start on a second device that refuses the CPU's tensors.
        dtype: Type of the weights that models compute with, and that `latest/model` has. What the optimisers step is
            float32 either way, and so is what a run goes on from.
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
    record_every: int = 10
    seed: int = 0
    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    num_threads: int = 0

    def __post_init__(self) -> None:
        require_name(self)
        require(bool(self.worlds), "A run needs at least one world.")
        names = world_names(self.worlds)
        require(
            len(set(names)) == len(names),
            f"Worlds of a mix need distinct names, by which results are told apart; got {', '.join(names)}. Give one "
            "another: --worlds.1.name NAME.",
        )
        require_at_least(self, 1, "num_groups", "group_size")
        require_at_least(self, 0, "num_iterations", "num_eval_episodes", "num_val_episodes", "num_threads", "seed")
        require_at_least(self, 0, "eval_every", "checkpoint_every", "record_every")
        for number, spec in enumerate(self.worlds):
            self._check_judge(spec, f"--worlds.{number}.kwargs.prompt-format")
        refuse_inert(self)
        require_room_for_partners(self)
        require_rows_that_fit(self)

    def _check_judge(self, spec: WorldSpec, option: str) -> None:
        """Refuses judge rewards that the chosen format, which `option` sets, can never earn."""
        if self.judge.episode is not None:
            try:
                require_strategy(self.judge.episode, spec.prompt_format, mags_stage=spec.kwargs.get("mags_stage"))
            except ConfigError as error:
                raise ConfigError(f"--judge.episode {self.judge.episode} with {option}: {error}") from error
        if not has_rules(spec.env_id) or not (self.judge.grounding_weight or self.judge.worldmodeling_weight):
            return  # Nothing to judge by, or nothing to judge: the world's own reward is what counts.
        prompt_format = spec.prompt_format
        if self.judge.grounding_weight > 0:
            require(
                "grounding" in prompt_format,
                f"--judge.grounding-weight is {self.judge.grounding_weight}, but the format {prompt_format!r} "
                f"of {spec.env_id} has no <observation>. Use --judge.grounding-weight 0, or {option} with grounding in "
                "it.",
            )
        if self.judge.worldmodeling_weight > 0:
            require(
                "worldmodeling" in prompt_format,
                f"--judge.worldmodeling-weight is {self.judge.worldmodeling_weight}, but "
                f"the format {prompt_format!r} of {spec.env_id} has no <prediction>. Use "
                f"--judge.worldmodeling-weight 0, or {option} with worldmodeling in it.",
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the resolved configuration as plain data, paths as text."""
        return asdict(self, dict_factory=lambda items: {k: str(v) if isinstance(v, Path) else v for k, v in items})
