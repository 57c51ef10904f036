"""Learned similarities of pictures, for `VLM/SVG-v0`: DreamSim and DINO, from weights the user has on disk.

Nothing is ever downloaded. The factories take no arguments, so that a world can be given their names:
`gym.make("VLM/SVG-v0", scorer="agents.perception.similarity:dreamsim")`, and `second_scorer` likewise.
"""

from agents.perception.similarity.weights import DINO_VARIABLE, DREAMSIM_VARIABLE, WeightsUnavailableError, folder_of
from vlm_envs.worlds.svg.scorers import Scorer

__all__ = ["DINO_VARIABLE", "DREAMSIM_VARIABLE", "WeightsUnavailableError", "dino", "dreamsim"]


def dino() -> Scorer:
    """Returns the DINO scorer with the weights in the folder that `VLM_ENVS_DINO` names.

    Raises:
        WeightsUnavailableError: If there are no such weights.
    """
    from agents.perception.similarity.dino_scorer import DinoScorer

    return DinoScorer(folder_of(DINO_VARIABLE, "dino"))


def dreamsim() -> Scorer:
    """Returns the DreamSim scorer with the weights in the folder that `VLM_ENVS_DREAMSIM` names.

    Raises:
        WeightsUnavailableError: If there are no such weights, or the package is missing.
    """
    from agents.perception.similarity.dreamsim_scorer import DreamSimScorer

    return DreamSimScorer(folder_of(DREAMSIM_VARIABLE, "dreamsim"))
