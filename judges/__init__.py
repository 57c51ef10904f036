"""Scoring: exact readers of state text, the papers' episode rewards, and judges that ask a model."""

import vlm_envs  # noqa: F401  # first, because it reports missing packages in one line
from vlm_envs.moved import alias_modules

alias_modules(
    {
        "judges.agentic": "judges.agentic_judge",
        "judges.agentic.judge": "judges.agentic_judge",
        "judges.batched_judging": "judges.asking",
        "judges.deferred": "judges.asking",
        "judges.episode_rewards.clip_models": "judges.episode_rewards.exact_models",
        "judges.episode_rewards.mags_settings": "judges.episode_rewards.mags",
        "judges.episode_rewards.models": "judges.episode_rewards.judge_models",
        "judges.episode_rewards.registry": "judges.episode_rewards.reward_registry",
        "judges.episode_rewards.reward": "judges.episode_rewards.episode_reward",
        "judges.episode_rewards.settings": "judges.episode_rewards.episode_reward",
        "judges.llm.families": "judges.llm.claim_extraction",
        "judges.llm.graded": "judges.llm.llm_graders",
        "judges.llm.judge": "judges.llm.llm_judge",
        "judges.llm.shaping": "judges.llm.llm_judge",
        "judges.reading": "judges.grading",
        "judges.reading.answers": "judges.grading",
        "judges.state_text.exact": "judges.state_text.exact_judge",
        "judges.state_text.rules": "judges.state_text.exact_judge",
        "judges.turn_rewards.shaping": "judges.turn_rewards",
    }
)  # until 0.2.0
