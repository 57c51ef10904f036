"""An agent that vLLM samples, in which no episode waits for another."""

from __future__ import annotations

from agents.hf.requests import AnswersRequests
from agents.vllm.agent import VLLMAgent


class ContinuousVLLMAgent(AnswersRequests, VLLMAgent):
    """A `ContinuousAgent`; see `VLLMAgent` for its arguments. It says what that one says, whoever is asked first."""
