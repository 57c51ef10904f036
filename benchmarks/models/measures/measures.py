"""Measures of a board: rows for an agent in a world, and pairs of agents on the same levels."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Literal

from benchmarks.models.board.board_spec import REFERENCES
from benchmarks.models.measures.perception_gaps import SEEN, paired_on, view_of, with_interval
from vlm_envs.records.json_lines import Record
from vlm_envs.records.report_mistakes import first_mistake
from vlm_envs.statistics.bootstrap import PairedDifference
from vlm_envs.statistics.paired_tests import PairedOutcomes, holm
from vlm_envs.statistics.success_rates import Interval, num_levels_of, pass_at_k, pass_hat_k, share_interval

Level = tuple[int, int]
"""Seed and repeat."""

GRADED, ZOOM_NEED = GRADED_MEASURES = ("graded", "zoom_need")
"""Measures that a model grades once per episode (`benchmarks.models.judged`)."""

_PARTS = {"usd": ("usd",), "tokens": ("prompt_tokens", "completion_tokens")}
"""Keys of a turn's usage that are summed for an episode's cost and tokens."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One agent in one world. Episodes that ended with an error are counted, but enter no measure.

    Attributes:
        agent: Label of the agent.
        world: Label of the world.
        view: Its `obs_mode`.
        models: IDs of the models that answered, as servers returned them, in order of first appearance.
        addresses: URLs of the servers, in the same order; empty if not recorded.
        num_unjudged: Texts and answers sent to judges that have no verdict; None if all have one.
        num_asked: Texts and answers sent to judges; None if all have a verdict.
        num_episodes: Completed episodes.
        num_levels: Distinct levels of these episodes; None if every seed had its own level.
        num_errors: Episodes that ended with a provider or worker failure.
        num_successes: Solved episodes.
        interval: Confidence interval of the success rate (`repeated_interval`). Clusters are the episodes on one level,
            whatever their seeds, and questions about the same image or document.
        reward: Mean return; None without episodes.
        invalid_rate: Share of turns whose response was out of the format; None without turns.
        ineffective_rate: Share of the turns with actions in which no action had an effect; None without such turns.
        turns_to_success: Mean number of turns of solved episodes; None if none was solved.
        turns_over_optimal: Mean ratio of turns taken to turns of an optimal plan, over solved episodes; None if no plan
            or no maximum number of actions per turn is known.
        over_optimal: The same ratio for executed actions.
        regret: Mean number of wasted actions per turn, over turns with actions that left the level solvable; None if
            no plan is known.
        ruined_rate: Share of episodes with a turn that made the level unsolvable; None if no plan is known.
        mistakes: How often each kind of mistake was the first of an unsolved episode. Judge scores are used only if the
            same judge scored the whole world, so that rows are comparable.
        pass_at: By k, the mean probability that at least one of k episodes of a level succeeds; empty without repeats.
        pass_hat: By k, the mean probability that all of them succeed.
        tokens: Tokens sent and received, including failed attempts, per completed episode; None if some were not
            counted.
        usd: Cost of all episodes, including failed attempts; None if a price is unknown.
        seconds: Median time of an episode; None if not measured.
        metrics: Means of the world's final metrics, by name.
        judged: Means of judge measures, by name (`benchmarks.models.judged`); empty if not judged.
    """

    agent: str
    world: str
    num_episodes: int
    num_errors: int
    num_successes: int
    interval: Interval
    reward: float | None
    invalid_rate: float | None
    ineffective_rate: float | None
    turns_to_success: float | None
    turns_over_optimal: float | None
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
    judged: Mapping[str, float] = field(default_factory=dict)
    view: str = SEEN
    models: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    num_levels: int | None = None
    num_unjudged: int | None = None
    num_asked: int | None = None

    @property
    def num_models(self) -> int | None:
        """Number of models that answered; None if one or unknown."""
        return len(self.models) if len(self.models) > 1 else None

    @property
    def num_addresses(self) -> int | None:
        """Number of servers that answered; None if one or unknown."""
        return len(self.addresses) if len(self.addresses) > 1 else None

    @property
    def success(self) -> float:
        """Share of episodes solved."""
        return self.num_successes / self.num_episodes if self.num_episodes else 0.0

    @property
    def usd_per_success(self) -> float | None:
        """Cost per solved episode; None if a price is unknown or no episode was solved."""
        return None if self.usd is None or not self.num_successes else self.usd / self.num_successes

    @property
    def tokens_per_success(self) -> float | None:
        """Tokens per solved episode; None if not counted or no episode was solved."""
        return None if self.tokens is None or not self.num_successes else self.tokens / self.success


def success_text(row: Row) -> str:
    """Returns the success rate of a row with its interval; a dash without episodes."""
    return with_interval(row.success, row.interval) if row.num_episodes else "–"


def rows(lines: Sequence[Record], worlds: Iterable[Record] = ()) -> list[Row]:
    """Returns a row for each agent in each world, in order of first appearance.

    Args:
        lines: From `Board.lines`. The last attempt of an episode counts, but the costs of all attempts are included.
        worlds: The worlds of `Board.record`, for their maximum numbers of actions per turn.
    """
    grouped: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for line in lines:
        grouped[line["agent"], line["world"]].append(line)
    entries = {entry["label"]: entry for entry in worlds}
    judged = judged_worlds(lines)
    return [_row(agent, world, group, entries.get(world), world in judged) for (agent, world), group in grouped.items()]


def judged_worlds(lines: Iterable[Record]) -> set[str]:
    """Returns the worlds whose completed episodes were all judged by the same judge, so that scores are comparable."""
    judges: dict[str, set[str | None]] = defaultdict(set)
    for line in lines:
        if not line["error"]:
            judges[line["world"]].add(None if line.get("unjudged") else line.get("judge"))
    return {world for world, names in judges.items() if len(names) == 1 and None not in names}


def _row(agent: str, label: str, lines: Sequence[Record], world: Record | None, is_judged: bool) -> Row:
    episodes = list({(line["seed"], line["repeat"]): line for line in lines}.values())
    actions_per_turn = None if world is None else world.get("max_actions_per_turn")
    played = [episode for episode in episodes if not episode["error"]]
    turns = [turn for episode in played for turn in episode["turns"]]
    acting = [turn for turn in turns if turn["actions"]]
    solved = [episode for episode in played if episode["success"]]
    by_level: dict[int, list[bool]] = defaultdict(list)
    for episode in played:
        by_level[episode["seed"]].append(bool(episode["success"]))
    mistakes = (first_mistake(episode, trusts_judge=is_judged) for episode in played)
    seconds = _known(episode.get("seconds") for episode in played)
    tokens = spent("tokens", lines)
    return Row(
        agent=agent,
        world=label,
        view=SEEN if world is None else view_of(world),
        num_episodes=len(played),
        num_levels=num_levels if (num_levels := num_levels_of(played)) < len(by_level) else None,
        num_errors=len(episodes) - len(played),
        num_successes=len(solved),
        interval=share_interval(played, [bool(episode["success"]) for episode in played]),
        reward=_mean(episode["total_reward"] for episode in played),
        invalid_rate=_mean(turn["parse_error"] is not None for turn in turns),
        ineffective_rate=_mean(turn["action_effective"] is False for turn in acting),
        turns_to_success=_mean(map(turns_to_success, solved)),
        turns_over_optimal=_mean(turns_over_optimal(episode, actions_per_turn) for episode in solved),
        over_optimal=_mean(map(actions_over_optimal, solved)),
        regret=_mean(regret for episode in played for regret in regrets(episode)),
        ruined_rate=_mean(ruined_at(episode) is not None for episode in played if is_solver_known(episode)),
        mistakes=dict(Counter(mistake.kind for mistake in mistakes if mistake).most_common()),
        pass_at=_over_repeats(by_level, pass_at_k),
        pass_hat=_over_repeats(by_level, pass_hat_k),
        tokens=None if tokens is None or not played else tokens / len(played),
        usd=spent("usd", lines),
        seconds=median(seconds) if seconds else None,
        metrics=_means(played, "metrics"),
        judged=_means(played, "judged"),
        models=tuple(dict.fromkeys(model for turn in turns if (model := turn.get("model")))),
        addresses=tuple(dict.fromkeys(address for episode in played if (address := episode.get("address")))),
        **_unjudged(played),
    )


def _unjudged(episodes: Sequence[Record]) -> dict[str, int]:
    """Returns the number of texts and answers without a verdict and of all; empty if all have one."""
    missing = [entry for episode in episodes for entry in episode.get("unjudged") or ()]
    if not missing:
        return {}
    texts = sum(len(turn["scores"]) for episode in episodes for turn in episode["turns"])
    measures = sum(name in (episode.get("judged") or {}) for episode in episodes for name in GRADED_MEASURES)
    return {
        "num_unjudged": len(missing),
        "num_asked": texts + measures + sum("kept" not in entry for entry in missing),
    }


def _over_repeats(
    by_level: Mapping[int, Sequence[bool]], estimate: Callable[[int, int, int], float]
) -> dict[int, float]:
    """Returns an estimate by k, for powers of 2 up to the repeats that every level has, and for that number itself."""
    fewest = min(map(len, by_level.values()), default=0)
    if fewest < 2:
        return {}
    powers = [2**power for power in range(int(math.log2(fewest)) + 1)]
    return {
        k: fmean(estimate(len(repeats), sum(repeats), k) for repeats in by_level.values())
        for k in sorted({*powers, fewest})
    }


def _means(episodes: Sequence[Record], kind: str) -> dict[str, float]:
    """Returns the mean of each named number over the episodes that have it."""
    values = [episode.get(kind) or {} for episode in episodes]
    names = dict.fromkeys(name for value in values for name in value)
    return {name: fmean(value[name] for value in values if name in value) for name in names}


def spent(name: Literal["usd", "tokens"], lines: Sequence[Record]) -> float | None:
    """Returns the usage of all attempts, including failed ones; None if unknown for all or for a completed one."""
    played = [line.get(name) for line in lines if not line["error"]]
    # The turn that failed has no price, but the turns before it were paid
    usages = [turn["usage"] for line in lines if line["error"] for turn in line.get("turns", ())]
    lost = [usage[part] for usage in usages for part in _PARTS[name] if part in usage]
    known = _known([*played, *lost])
    return None if None in played or not known else float(sum(known))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the known values; None if there are none."""
    known = _known(values)
    return float(fmean(known)) if known else None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two agents on the levels of one world that both played.

    Attributes:
        world: Label of the world.
        first: Label of one agent.
        second: Label of the other agent.
        outcomes: Successes of both, paired by level and repeat.
        p_value: P-value that both solve equally many, by `outcomes.test`: McNemar's exact test, or a sign-flip test of
            whole clusters if levels were repeated or share an image or a document. Holm-corrected over all pairs
            of contestants in all worlds; pairs with a reference are a separate family.
        reward: Difference of their mean returns; its p-value is corrected in the same way.
    """

    world: str
    first: str
    second: str
    outcomes: PairedOutcomes
    p_value: float
    reward: PairedDifference


def pairs(episodes: Sequence[Record]) -> list[Pair]:
    """Returns all pairs of agents in every world, on the levels that both played, with corrected p-values."""
    worlds: dict[str, dict[str, dict[Level, Record]]] = defaultdict(lambda: defaultdict(dict))
    for episode in episodes:
        if not episode["error"]:
            worlds[episode["world"]][episode["agent"]][episode["seed"], episode["repeat"]] = episode
    found = []
    for world, agents in worlds.items():
        for first, second in itertools.combinations(agents, 2):
            if levels := [level for level in agents[first] if level in agents[second]]:
                outcomes, reward = paired_on(levels, agents[first], agents[second])
                p_value = outcomes.p_value
                found.append(
                    Pair(world=world, first=first, second=second, outcomes=outcomes, p_value=p_value, reward=reward)
                )
    names = [(pair.first, pair.second) for pair in found]
    of_success = corrected(names, [pair.p_value for pair in found])
    of_reward = corrected(names, [pair.reward.p_value for pair in found])
    return [
        replace(pair, p_value=p_value, reward=pair.reward._replace(p_value=reward_p_value))
        for pair, p_value, reward_p_value in zip(found, of_success, of_reward, strict=True)
    ]


def actions_over_optimal(episode: Record) -> float | None:
    """Returns the ratio of a solved episode's actions to those of an optimal plan; None if no plan is known."""
    needed = _needed(episode)
    return sum(len(turn["actions"]) for turn in _until_solved(episode)) / needed if needed else None


def turns_to_success(episode: Record) -> int:
    """Returns the number of turns that a solved episode took."""
    return len(_until_solved(episode))


def turns_over_optimal(episode: Record, actions_per_turn: int | None) -> float | None:
    """Returns the ratio of a solved episode's turns to the turns that an optimal plan needs.

    Args:
        episode: A line of a board.
        actions_per_turn: Maximum number of actions per turn; None if unknown.

    Returns:
        The ratio, at least 1; None if no plan or `actions_per_turn` is unknown.
    """
    needed = _needed(episode)
    if not needed or not actions_per_turn:
        return None
    return turns_to_success(episode) / math.ceil(needed / actions_per_turn)


def regrets(episode: Record) -> list[float | None]:
    """Returns the actions wasted in each turn: executed actions minus the reduction in actions still needed.

    Returns:
        One number per turn, 0 for a part of an optimal plan; None if no plan is known, nothing was done or left to
        do, or the turn made the level unsolvable.
    """
    wasted: list[float | None] = []
    for index, turn in enumerate(episode["turns"]):
        # A solved episode has nothing left to do, even if the world still reports a plan
        before, left = _optimal(turn), 0 if _solves(episode, index) else turn["optimal_actions_left"]
        if not before or left is None or not turn["actions"] or _ruins(episode, index):
            wasted.append(None)
        else:
            wasted.append(max(0.0, float(len(turn["actions"]) + left - before)))
    return wasted


def ruined_at(episode: Record) -> int | None:
    """Returns the index of the turn that made the level unsolvable or ended it unsolved; None if there is none."""
    return next((index for index in range(len(episode["turns"])) if _ruins(episode, index)), None)


def is_solver_known(episode: Record) -> bool:
    """Returns whether the world reported the distance to the solution in any turn."""
    return any(_optimal(turn) is not None for turn in episode["turns"])


def _needed(episode: Record) -> int | None:
    return _optimal(episode["turns"][0]) if episode["turns"] else None


def _optimal(turn: Record) -> int | None:
    """Returns the length of an optimal plan before a turn; None if unknown."""
    is_asked = "sample_id" in (turn.get("state") or {})
    return None if is_asked else turn["optimal_actions_before"]


def _until_solved(episode: Record) -> list[Record]:
    """Returns the turns up to and including the one that solved the level."""
    turns: list[Record] = episode["turns"]
    end = next((number for number, turn in enumerate(turns, 1) if turn["optimal_actions_left"] == 0), len(turns))
    return turns[:end]


def _ruins(episode: Record, index: int) -> bool:
    turn = episode["turns"][index]
    if _optimal(turn) is None or _solves(episode, index):
        return False
    return turn["optimal_actions_left"] is None or bool(turn["terminated"])


def _solves(episode: Record, index: int) -> bool:
    return bool(episode["success"]) and index == len(episode["turns"]) - 1


def corrected(pairs: Sequence[tuple[str, str]], p_values: Sequence[float]) -> list[float]:
    """Returns Holm-corrected p-values of pairs of agents, in the same order.

    `random`, `lazy`, and `oracle` are on every board for scale. Comparisons with them are corrected as a separate
    family, so they do not weaken comparisons between contestants.
    """
    found = [0.0] * len(pairs)
    has_reference = [not set(REFERENCES).isdisjoint(pair) for pair in pairs]
    for family in (True, False):
        members = [index for index, is_of in enumerate(has_reference) if is_of is family]
        for index, p_value in zip(members, holm([p_values[index] for index in members]), strict=True):
            found[index] = p_value
    return found


_OF_STOPS = {
    "length": "the response was cut off at the token limit",
    "content_filter": "the model or its provider refused to answer",
    "context": "the request exceeded a limit of the model",
    "tool_call": "the model called a tool that it was not offered, and wrote no text",
}
_EXAMPLE = re.compile(
    r"(?<= does not begin with an action): (?P<quote>['\"]).*(?P=quote)(?=; expected )", flags=re.DOTALL
)
_QUOTED_ACTION = re.compile(r"^(?P<quote>['\"]).*(?P=quote) is not an action", flags=re.DOTALL)


def unread_turns(turns: Iterable[Record]) -> list[Record]:
    """Returns the turns whose response was out of the format and contained no readable action."""
    return [turn for turn in turns if turn["parse_error"] is not None and not turn["actions"]]


def why_unread(turn: Record) -> str:
    """Returns why a response could not be read, as a clause to follow "because".

    The clause quotes nothing from the response, so that turns can be counted by it.
    """
    return _QUOTED_ACTION.sub("the answer does not begin with an action", _EXAMPLE.sub("", why_unread_exactly(turn)))


def why_unread_exactly(turn: Record) -> str:
    """Returns the same clause with a quotation of the answer's beginning where that is the reason."""
    if reason := _OF_STOPS.get(turn["stop_reason"]):
        return reason
    if not turn["response"].strip():
        thought = bool(str(turn.get("thoughts") or "").strip())
        return "the response held only thoughts and no answer" if thought else "the response was empty"
    return str(turn.get("unread") or turn["parse_error"])
