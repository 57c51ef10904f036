"""Who verifies in a curation: the judge of its reward, with whatever models that asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

from agents.api.client import ChatClient
from agents.hf.checkpoint import torch_device
from judges.batched_judging import MapFn, one_by_one
from judges.episode_rewards.episode_reading import final_state, key_of
from judges.episode_rewards.episode_reward import EpisodeJudge
from judges.episode_rewards.judge_models import JudgeModels
from judges.grading import AnswerJudge, match_answer
from judges.llm.llm_graders import LLMAnswerJudge
from judges.scores import JudgeScore, Reward
from training.config.curation.curate import CurateConfig
from training.rewards.checkpoint_judge import CheckpointJudge
from training.rewards.score import model_judges
from training.rewards.verifier import Verifier
from vlm_envs.responses.answers import read_answer
from vlm_envs.trajectory import Trajectory


class CurationJudge:
    """The judge of a reward, and who says whether answers are right that no rule can compare.

    Args:
        rewards: The judge of the reward.
        answers: Who says so, with 0 or 1; None for nobody.
        map_fn: How many are asked about together.
    """

    def __init__(
        self, rewards: EpisodeJudge, answers: RememberedAnswers | None = None, map_fn: MapFn = one_by_one
    ) -> None:
        self._rewards, self._answers, self._map_fn = rewards, answers, map_fn

    def __call__(self, episodes: Sequence[Trajectory]) -> list[Reward]:
        """Returns the reward of each episode, in order."""
        return self._rewards(episodes)

    def settled(self, episodes: Sequence[Trajectory]) -> list[Trajectory | None]:
        """Returns each episode as if its answer could be compared by rule, with success by what the judge says.

        One whose answer is compared by rule stays what it is; of one that the judge says nothing of there is None.
        """
        if self._answers is None:
            return list(episodes)
        self._answers.forget()
        return list(self._map_fn(self._settled, episodes))

    def _settled(self, episode: Trajectory) -> Trajectory | None:
        state = final_state(episode)
        if state.get("answer_kind") != "semantic":
            return episode
        score = match_answer(state["answer"], key_of(episode), self._answers)
        if not score.available:
            return None
        right = score.value == 1.0
        answers = [read_answer(state["answer"])] if right else state["answers"]
        return with_outcome(episode, success=right, state={**state, "answer_kind": "exact", "answers": answers})

    def state_dict(self) -> dict[str, Any]:
        """Returns what the judge of the reward remembers."""
        return self._rewards.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with what it remembered."""
        self._rewards.load_state_dict(state)


class RememberedAnswers:
    """A judge of answers that is asked about each once, however many want to know."""

    def __init__(self, judge: AnswerJudge) -> None:
        self._judge = judge
        self._known: dict[tuple[str, str, str], JudgeScore] = {}

    def __call__(self, question: str, truth: str, answer: str) -> JudgeScore:
        """Returns the grade of one answer."""
        asked = (question, truth, answer)
        if asked not in self._known:
            self._known[asked] = self._judge(*asked)
        return self._known[asked]

    def forget(self) -> None:
        """Forgets what it was asked."""
        self._known.clear()


def with_outcome(episode: Trajectory, **outcome: Any) -> Trajectory:
    """Returns an episode of whose last turn something else is known."""
    *turns, last = episode.turns
    return replace(episode, turns=(*turns, replace(last, info={**last.info, **outcome})))


@contextmanager
def curation_judge(config: CurateConfig) -> Iterator[CurationJudge]:
    """Gives the judge of the verifying reward within the block; behind it its models are let go.

    Raises:
        ConfigError: If it cannot be built.
        EngineUnavailableError: If a model's weights are not there.
    """
    reward = config.reward
    with ExitStack() as opened:
        device = str(torch_device(config.device)) if config.verifier.directories else "cpu"
        verifier = opened.enter_context(closing(Verifier(config.verifier, device)))
        client = _asked(config)
        if client is None:
            yield CurationJudge(reward.make_judge(JudgeModels(**verifier.models)))
            return
        opened.enter_context(closing(client))
        answers, asked = RememberedAnswers(LLMAnswerJudge(client, "binary")), model_judges(client, reward)
        if "answer_judge" in asked and reward.answer_scale == "binary":
            asked["answer_judge"] = answers
        yield CurationJudge(reward.make_judge(JudgeModels(**verifier.models, **asked)), answers, client.map)


def _asked(config: CurateConfig) -> Any:
    """Returns what puts questions to the model that judges what no rule can; None without one."""
    if config.endpoint is not None:
        return ChatClient(config.endpoint)
    return None if config.judge is None else CheckpointJudge(config.judge, device=config.device)
