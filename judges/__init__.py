"""Who scores: exact judges, chance baselines, the repetition penalty and reward shaping."""

from judges.chance import ChanceBaseline, chance_baseline, measure_chance
from judges.exact import ExactJudge, Judge, JudgeScore
from judges.repetition import RepetitionConfig, RepetitionPenalty
from judges.scenes import SCENES, Category, Scene, scene_of
from judges.shaping import (
    GroundingReward,
    JudgedTurn,
    RepetitionTerm,
    RewardTerm,
    ScoredTurn,
    ShapedTurn,
    WorldModelingReward,
    exact_judge,
    shape,
)

__all__ = [
    "SCENES",
    "Category",
    "ChanceBaseline",
    "ExactJudge",
    "GroundingReward",
    "Judge",
    "JudgeScore",
    "JudgedTurn",
    "RepetitionConfig",
    "RepetitionPenalty",
    "RepetitionTerm",
    "RewardTerm",
    "Scene",
    "ScoredTurn",
    "ShapedTurn",
    "WorldModelingReward",
    "chance_baseline",
    "exact_judge",
    "measure_chance",
    "scene_of",
    "shape",
]
