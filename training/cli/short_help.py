"""Options that the short help of a recipe and of a curation shows."""

from __future__ import annotations

MAIN_OPTIONS = (
    *("--algorithm", "--resume", "--name", "--output", "--model", "--num-iterations", "--num-groups", "--group-size"),
    *("--num-eval-episodes", "--eval-every", "--checkpoint-every", "--seed", "--device", "--num-threads"),
    *("--worlds.0.env-id", "--sampling.temperature", "--judge.episode-reward", "--ppo.learning-rate", "--ppo.kl-coef"),
    "--lora.rank",
)
"""Options that `--help` of a recipe shows."""

COLD_START_OPTIONS = (
    *("--name", "--output", "--seed", "--device", "--num-threads", "--worlds.0.env-id", "--lora.rank"),
    *("--cold-start.num-steps", "--cold-start.num-first-turn-steps", "--cold-start.batch-size"),
    *("--cold-start.learning-rate", "--cold-start.warmup-steps", "--cold-start.mistake-rate"),
    *("--cold-start.suboptimal-rate", "--cold-start.num-demonstrations", "--cold-start.data"),
    *("--cold-start.start-from", "--cold-start.checkpoint-every"),
)
"""Options that `--help` of a cold start shows."""

CURATION_OPTIONS = (
    *("--name", "--env-id", "--set", "--again", "--episode-reward", "--judge", "--expert", "--num-samples"),
    *("--num-kept", "--pool", "--exclude", "--num-rollouts", "--threshold", "--output", "--seed", "--device"),
    *("--endpoint.model", "--endpoint.provider", "--endpoint.base-url", "--endpoint.api-key-variable"),
)
"""Options that `--help` of a curation shows."""
