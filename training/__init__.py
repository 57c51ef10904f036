"""Training: batches, advantages, losses, optimization, checkpoints, and recipes."""

import vlm_envs  # noqa: F401  # first, because it reports missing packages in one line
from vlm_envs.moved import alias_modules

alias_modules(
    {
        "training.algorithms.critic": "training.algorithms.algorithm",
        "training.config.curation": "training.curation.curation_config",
        "training.config.curation.curate": "training.curation.curation_config",
        "training.config.judges": "training.config.judge_config",
        "training.config.run": "training.config.run_config",
        "training.config.stages": "training.stages.stages_config",
        "training.config.supervised": "training.sft.sft_config",
        "training.config.supervised.cold_start": "training.cold_start.cold_start_config",
        "training.config.supervised.sft": "training.sft.sft_config",
        "training.config.update": "training.config.update_config",
        "training.config.update.ppo": "training.config.update_config",
        "training.config.worlds": "training.config.world_spec",
        "training.config.worlds.mix": "training.mixture.mixture_config",
        "training.config.worlds.pools": "training.pools.pool_config",
        "training.config.worlds.spec": "training.config.world_spec",
        "training.loop.run": "training.run",
        "training.loop.stages": "training.stages.stages_loop",
        "training.recipes.mix_tiny": "training.recipes.tiny",
    }
)  # until 0.2.0
