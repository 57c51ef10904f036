"""Episodes as they are told at a terminal: what was shown, what was said, what came of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from agents.rollout import failure_of
from agents.screen import observation_lines, text_lines
from vlm_envs.cli.terminal import Colors, wrapped
from vlm_envs.trajectory import Trajectory, Turn


class Narration:
    """Prints each turn as it comes, and how each episode ended.

    Args:
        agent: What the agent is called.
        env_id: What the world is called.
        colors: Colours of the terminal.
        shows_observations: False for an agent that shows what it is asked itself.
    """

    def __init__(self, agent: str, env_id: str, colors: Colors, *, shows_observations: bool = True) -> None:
        self.agent, self.env_id, self.colors = agent, env_id, colors
        self.shows_observations = shows_observations
        self._num_turns = self._num_episodes = self._num_solved = 0
        self.num_failed = 0
        self._all_turns: list[Turn] = []
        self._level = ""

    def start(self, level: str) -> None:
        """Begins an episode, of a level such as `"train seed 7"`."""
        self._num_turns, self._level = 0, level

    def turn(self, row: int, turn: Turn) -> None:
        """Prints a turn; `row` is the number of its world, and passed over."""
        self._num_turns += 1
        lines = [f"── {self.env_id}, {self._level}, turn {self._num_turns} ──"]
        if self.shows_observations:
            lines += observation_lines(turn.observation, self.colors)
        said = text_lines(turn.response_text)
        outcome = wrapped(_outcome(turn), sys.stdout)
        print(*lines, f"{self.agent} says:", *(f"  {line}" for line in said), *outcome, "", sep="\n", flush=True)

    def end(self, episode: Trajectory) -> None:
        """Prints how an episode ended, with the last thing seen."""
        self._num_episodes += 1
        self._num_solved += episode.success
        if failure := failure_of(episode):
            self.num_failed += 1
            how = f"Failed ({failure.rstrip('.')})"
        else:
            how = _ending(episode)
        print(f"── {self.env_id}, {self._level}, the end ──")
        print(*observation_lines(episode.final_observation, self.colors), sep="\n")
        turns = f"{len(episode.turns)} turn{'s' * (len(episode.turns) != 1)}"
        self._all_turns += episode.turns
        print(f"{how}: {turns}, return {episode.total_reward:+.2f}.{_used(episode.turns)}\n", flush=True)

    def total(self) -> None:
        """Prints how many episodes were solved, of several."""
        if self._num_episodes > 1:
            used = _used(self._all_turns)
            num_played = self._num_episodes - self.num_failed
            solved = f" solved {self._num_solved} of {num_played}." if num_played else ":"
            failed = f" {self.num_failed} failed." if self.num_failed else ""
            print(f"{self.agent}{solved}{failed}{used}", flush=True)

    @property
    def has_only_failed(self) -> bool:
        """Whether a failure ended every episode, so that nothing is known of the agent."""
        return self.num_failed == self._num_episodes > 0


def _ending(episode: Trajectory) -> str:
    """Returns how an episode ended that no failure ended."""
    last = episode.turns[-1]
    if episode.success:
        return "Solved"
    if last.terminated:
        return "Not solved; it is over"
    return "Ran out of context" if last.info.get("context_full") else "Not solved in time"


def _used(turns: Sequence[Turn]) -> str:
    """Returns a sentence of the tokens that turns took, and their cost where it is known; empty without a model."""
    sent, received, usd = (
        sum(turn.usage[name] for turn in turns) if all(name in turn.usage for turn in turns) else None
        for name in ("prompt_tokens", "completion_tokens", "usd")
    )
    if sent is None or received is None:
        return ""
    return f" Used {sent:,.0f} tokens sent, {received:,.0f} received{'' if usd is None else f', {usd:.4f} USD'}."


def _outcome(turn: Turn) -> list[str]:
    """Returns what came of a response: what could not be read is told as it is."""
    actions = [str(action) for action in turn.info.get("actions") or ()]
    error = str(turn.info.get("parse_error") or "")
    problems = [
        "cut off at the token limit" if turn.stop_reason == "length" else "",
        f"refused: {turn.stop_detail or 'by the model or its provider'}"
        if turn.stop_reason == "content_filter"
        else "",
        f"the request exceeded a limit of the model: {turn.stop_detail}" if turn.stop_reason == "context" else "",
        f"no response could be had: {turn.info.get('agent_error')}" if turn.stop_reason == "error" else "",
        "" if actions else error,
        f"the world's worker failed: {turn.info['worker_error']}" if "worker_error" in turn.info else "",
    ]
    terms = ", ".join(f"{name} {value:+g}" for name, value in turn.reward_terms.items() if value)
    return [
        f"Carried out: {', '.join(actions)}" if actions else "Nothing was carried out.",
        *([f"Not in the format: {error}"] if actions and error else []),
        *(f"Problem: {problem}" for problem in problems if problem),
        f"Reward {turn.reward:+g}{f' ({terms})' if terms else ''}",
    ]
