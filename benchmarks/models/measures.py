"""What a board says of one agent in one world, and of two agents on the same levels."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from vlm_envs.records.comparisons import PairedDifference, holm, paired_bootstrap, pass_at_k, pass_hat_k
from vlm_envs.records.json_lines import Record
from vlm_envs.records.report.mistakes import first_mistake
from vlm_envs.records.statistics import Interval, PairedOutcomes, pair_outcomes, wilson_interval

Level = tuple[int, int]
"""Seed and repeat."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One agent in one world. Episodes that ended with an error are counted, and in nothing else.

    Attributes:
        agent: What the board calls it.
        world: What the board calls it.
        num_episodes: Episodes played to their end.
        num_errors: Episodes that a failure of the provider or of a worker ended.
        num_successes: Of the played ones, solved.
        interval: Of the success rate: Wilson's where every level was played once, else by levels, bootstrapped.
        reward: Mean return.
        invalid_rate: Share of turns whose response could not be read.
        ineffective_rate: Share of turns with actions that changed nothing.
        over_optimal: Mean ratio of actions carried out to those of an optimal plan, of solved episodes; None where
            nobody knows a plan.
        regret: Mean number of actions a turn wasted, of turns that left the level solvable; None likewise.
        ruined_rate: Share of episodes with a turn that made the level unsolvable; None likewise.
        mistakes: How often each kind of mistake was an unsolved episode's first.
        pass_at: By k, the mean probability that one of k episodes of a level succeeds; empty without repeats.
        pass_hat: By k, that all of them do.
        tokens: Mean tokens sent and received, an episode; None where nobody counted.
        usd: Cost of all episodes; None where a price is not known.
        seconds: Median time of an episode; None where its agent did not take the time.
        metrics: Means of what the world measures at the end, by name.
    """

    agent: str
    world: str
    num_episodes: int
    num_errors: int
    num_successes: int
    interval: Interval
    reward: float
    invalid_rate: float
    ineffective_rate: float
    over_optimal: float | None
    regret: float | None
    ruined_rate: float | None
    mistakes: Mapping[str, int]
    pass_at: Mapping[int, float]
    pass_hat: Mapping[int, float]
    tokens: float | None
    usd: float | None
    seconds: float | None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def success(self) -> float:
        """Share of episodes solved."""
        return self.num_successes / self.num_episodes if self.num_episodes else 0.0

    @property
    def usd_per_success(self) -> float | None:
        """Cost of a solved episode; None where a price is not known or nothing was solved."""
        return None if self.usd is None or not self.num_successes else self.usd / self.num_successes

    @property
    def tokens_per_success(self) -> float | None:
        """Tokens of a solved episode; None where nobody counted or nothing was solved."""
        return None if self.tokens is None or not self.num_successes else self.tokens / self.success


def success_interval(num_successes: int, num_episodes: int) -> Interval:
    """Returns Wilson's interval of a success rate, levels played once each."""
    return wilson_interval(num_successes, num_episodes)


def rows(episodes: Sequence[Record]) -> list[Row]:
    """Returns a row for each agent in each world, in the order in which they first appear."""
    grouped: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for episode in episodes:
        grouped[episode["agent"], episode["world"]].append(episode)
    return [_row(agent, world, group) for (agent, world), group in grouped.items()]


def _row(agent: str, world: str, episodes: Sequence[Record]) -> Row:
    played = [each for each in episodes if not each["error"]]
    turns = [turn for each in played for turn in each["turns"]]
    acting = [turn for turn in turns if turn["actions"]]
    solved = [each for each in played if each["success"]]
    ratios = [ratio for each in solved if (ratio := _over_optimal(each)) is not None]
    solvable = [turn for turn in turns if turn["optimal_actions_before"] is not None]
    wasted = [_wasted(turn) for turn in solvable if turn["optimal_actions_left"] is not None or turn["terminated"]]
    by_level = _by_level(played)
    mistakes: dict[str, int] = defaultdict(int)
    for each in played:
        if mistake := first_mistake(each):
            mistakes[mistake.kind] += 1
    return Row(
        agent=agent,
        world=world,
        num_episodes=len(played),
        num_errors=len(episodes) - len(played),
        num_successes=len(solved),
        interval=_interval(by_level),
        reward=_mean([each["total_reward"] for each in played]),
        invalid_rate=_mean([turn["parse_error"] is not None for turn in turns]),
        ineffective_rate=_mean([turn["action_effective"] is False for turn in acting]),
        over_optimal=fmean(ratios) if ratios else None,
        regret=_mean(wasted) if wasted else None,
        ruined_rate=_mean([any(map(_ruins, each["turns"])) for each in played]) if solvable else None,
        mistakes=dict(sorted(mistakes.items(), key=lambda item: -item[1])),
        pass_at=_over_repeats(by_level, pass_at_k),
        pass_hat=_over_repeats(by_level, pass_hat_k),
        tokens=_total(played, "tokens", per_episode=True),
        usd=_total(episodes, "usd", per_episode=False),
        seconds=median(timed) if (timed := [each["seconds"] for each in played if "seconds" in each]) else None,
        metrics=_metrics(played),
    )


def _by_level(episodes: Sequence[Record]) -> dict[int, list[bool]]:
    by_level: dict[int, list[bool]] = defaultdict(list)
    for each in episodes:
        by_level[each["seed"]].append(bool(each["success"]))
    return dict(by_level)


def _interval(by_level: Mapping[int, Sequence[bool]]) -> Interval:
    """Returns the interval of the success rate; repeats of a level are no independent trials."""
    if all(len(repeats) == 1 for repeats in by_level.values()):
        return wilson_interval(sum(map(sum, by_level.values())), len(by_level))
    means = [fmean(repeats) for repeats in by_level.values()]
    return paired_bootstrap([0.0] * len(means), means).interval


def _over_repeats(by_level: Mapping[int, Sequence[bool]], estimate: Any) -> dict[int, float]:
    fewest = min(map(len, by_level.values()), default=0)
    if fewest < 2:
        return {}
    powers = [2**power for power in range(int(math.log2(fewest)) + 1)]
    return {
        k: fmean(estimate(len(repeats), sum(repeats), k) for repeats in by_level.values())
        for k in sorted({*powers, fewest})
    }


def _over_optimal(episode: Record) -> float | None:
    needed = episode["turns"][0]["optimal_actions_before"]
    return sum(len(turn["actions"]) for turn in episode["turns"]) / needed if needed else None


def _wasted(turn: Record) -> float:
    """Returns the actions of a turn that an optimal plan would have done without."""
    left = 0 if turn["optimal_actions_left"] is None else turn["optimal_actions_left"]
    return max(0.0, float(len(turn["actions"]) + left - turn["optimal_actions_before"]))


def _ruins(turn: Record) -> bool:
    return turn["optimal_actions_before"] is not None and turn["optimal_actions_left"] is None


def _metrics(episodes: Sequence[Record]) -> dict[str, float]:
    names = list(dict.fromkeys(name for each in episodes for name in each.get("metrics") or ()))
    return {name: fmean(each["metrics"][name] for each in episodes if name in each["metrics"]) for name in names}


def _total(episodes: Sequence[Record], name: str, *, per_episode: bool) -> float | None:
    values = [each.get(name) for each in episodes]
    known = [value for value in values if value is not None]
    if not known or (not per_episode and len(known) < len(values)):
        return None
    return fmean(known) if per_episode else float(sum(known))


def _mean(values: Sequence[float]) -> float:
    return float(fmean(values)) if values else 0.0


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two agents on the levels of one world that both have played.

    Attributes:
        world: What the board calls it.
        first: One agent.
        second: The other one.
        outcomes: Which of them solved what.
        p_value: Of McNemar's exact test, corrected by Holm for all pairs of the world.
        reward: Difference of their returns.
    """

    world: str
    first: str
    second: str
    outcomes: PairedOutcomes
    p_value: float
    reward: PairedDifference


def pairs(episodes: Sequence[Record]) -> list[Pair]:
    """Returns every pair of agents in every world, on the levels that both have played."""
    worlds: dict[str, dict[str, dict[Level, Record]]] = defaultdict(lambda: defaultdict(dict))
    for each in episodes:
        if not each["error"]:
            worlds[each["world"]][each["agent"]][each["seed"], each["repeat"]] = each
    return [pair for world, agents in worlds.items() for pair in _pairs_of(world, agents)]


def _pairs_of(world: str, agents: Mapping[str, Mapping[Level, Record]]) -> list[Pair]:
    found = []
    for first, second in itertools.combinations(agents, 2):
        levels = [level for level in agents[first] if level in agents[second]]
        if not levels:
            continue
        solved: list[dict[Hashable, bool]] = [
            {level: bool(agents[name][level]["success"]) for level in levels} for name in (first, second)
        ]
        rewards = [[agents[name][level]["total_reward"] for level in levels] for name in (first, second)]
        found.append((first, second, pair_outcomes(*solved), paired_bootstrap(*rewards)))
    corrected = holm([outcomes.p_value for _, _, outcomes, _ in found])
    return [
        Pair(world=world, first=first, second=second, outcomes=outcomes, p_value=p_value, reward=reward)
        for (first, second, outcomes, reward), p_value in zip(found, corrected, strict=True)
    ]
