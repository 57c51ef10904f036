"""What a board says of one agent in one world, and of two agents on the same levels."""

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
"""Measures that a model is asked for once per episode (`benchmarks.models.judged`)."""

_PARTS = {"usd": ("usd",), "tokens": ("prompt_tokens", "completion_tokens")}
"""What of a turn's usage adds up to what an episode took."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One agent in one world. Episodes that ended with an error are counted, and in nothing else.

    Attributes:
        agent: What the board calls it.
        world: What the board calls it.
        view: How it is seen, as its `obs_mode` says.
        models: IDs of the models that answered, as servers returned them, in the order in which they first appear.
        addresses: URLs of the servers, in the same order; empty where they were not recorded.
        num_unjudged: Texts and answers that judges were asked about and gave no verdict on; None where all have one.
        num_asked: Texts and answers that judges were asked about; None where all have a verdict.
        num_episodes: Episodes played to their end.
        num_levels: Distinct levels of these episodes; None where each seed gave a level of its own.
        num_errors: Episodes that a failure of the provider or of a worker ended.
        num_successes: Of the played ones, solved.
        interval: Of the success rate (`repeated_interval`); episodes on one level, under whichever seeds, and
            questions about the same image or document are clusters.
        reward: Mean return; None without episodes.
        invalid_rate: Share of turns whose response was not in the format; None without turns.
        ineffective_rate: Of turns with actions, the share in which none changed anything; None without such.
        turns_to_success: Mean number of turns of solved episodes; None where none was solved.
        turns_over_optimal: Mean ratio of turns taken to those that an optimal plan takes, of solved episodes; None
            where no plan is known, or the board does not say how many actions a turn has.
        over_optimal: The same of actions carried out.
        regret: Mean number of actions a turn wasted, of turns with actions that left the level solvable; None where
            no plan is known.
        ruined_rate: Share of episodes with a turn that made the level unsolvable; None likewise.
        mistakes: How often each kind of mistake was an unsolved episode's first. Judges' scores tell only where the
            same judge has judged the whole world, so that rows compare.
        pass_at: By k, the mean probability that one of k episodes of a level succeeds; empty without repeats.
        pass_hat: By k, that all of them do.
        tokens: Tokens sent and received, those of failed tries too, over the episodes played; None where they were not
            counted of all.
        usd: Cost of all episodes and of every failed try; None where a price is not known.
        seconds: Median time of an episode; None where its agent did not take the time.
        metrics: Means of what the world measures at the end, by name.
        judged: Means of what judges say of an episode, by name (`benchmarks.models.judged`); empty where nobody
            judged.
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
        """How many models answered; None where it was one, or is not known."""
        return len(self.models) if len(self.models) > 1 else None

    @property
    def num_addresses(self) -> int | None:
        """How many servers answered; None where it was one, or is not known."""
        return len(self.addresses) if len(self.addresses) > 1 else None

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
        """Tokens of a solved episode; None where they were not counted or nothing was solved."""
        return None if self.tokens is None or not self.num_successes else self.tokens / self.success


def success_text(row: Row) -> str:
    """Returns the success rate of a row with its interval; a dash without episodes."""
    return with_interval(row.success, row.interval) if row.num_episodes else "–"


def rows(lines: Sequence[Record], worlds: Iterable[Record] = ()) -> list[Row]:
    """Returns a row for each agent in each world, in the order in which they first appear.

    Args:
        lines: As `Board.lines` returns them: of an episode that was tried again the last try counts, but all are paid.
        worlds: The worlds of `Board.record`, which say how many actions a turn has.
    """
    grouped: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for line in lines:
        grouped[line["agent"], line["world"]].append(line)
    known = {each["label"]: each for each in worlds}
    judged = judged_worlds(lines)
    return [_row(agent, world, group, known.get(world), world in judged) for (agent, world), group in grouped.items()]


def judged_worlds(lines: Iterable[Record]) -> set[str]:
    """Returns the worlds whose played episodes were all judged, and by the same judge: their scores compare."""
    judges: dict[str, set[str | None]] = defaultdict(set)
    for line in lines:
        if not line["error"]:
            judges[line["world"]].add(None if line.get("unjudged") else line.get("judge"))
    return {world for world, names in judges.items() if len(names) == 1 and None not in names}


def _row(agent: str, label: str, lines: Sequence[Record], world: Record | None, is_judged: bool) -> Row:
    episodes = list({(line["seed"], line["repeat"]): line for line in lines}.values())
    actions_per_turn = None if world is None else world.get("max_actions_per_turn")
    played = [each for each in episodes if not each["error"]]
    turns = [turn for each in played for turn in each["turns"]]
    acting = [turn for turn in turns if turn["actions"]]
    solved = [each for each in played if each["success"]]
    by_level: dict[int, list[bool]] = defaultdict(list)
    for each in played:
        by_level[each["seed"]].append(bool(each["success"]))
    mistakes = (first_mistake(each, trusts_judge=is_judged) for each in played)
    seconds = _known(each.get("seconds") for each in played)
    tokens = spent("tokens", lines)
    return Row(
        agent=agent,
        world=label,
        view=SEEN if world is None else view_of(world),
        num_episodes=len(played),
        num_levels=num_levels if (num_levels := num_levels_of(played)) < len(by_level) else None,
        num_errors=len(episodes) - len(played),
        num_successes=len(solved),
        interval=share_interval(played, [bool(each["success"]) for each in played]),
        reward=_mean(each["total_reward"] for each in played),
        invalid_rate=_mean(turn["parse_error"] is not None for turn in turns),
        ineffective_rate=_mean(turn["action_effective"] is False for turn in acting),
        turns_to_success=_mean(map(turns_to_success, solved)),
        turns_over_optimal=_mean(turns_over_optimal(each, actions_per_turn) for each in solved),
        over_optimal=_mean(map(actions_over_optimal, solved)),
        regret=_mean(regret for each in played for regret in regrets(each)),
        ruined_rate=_mean(ruined_at(each) is not None for each in played if is_solver_known(each)),
        mistakes=dict(Counter(mistake.kind for mistake in mistakes if mistake).most_common()),
        pass_at=_over_repeats(by_level, pass_at_k),
        pass_hat=_over_repeats(by_level, pass_hat_k),
        tokens=None if tokens is None or not played else tokens / len(played),
        usd=spent("usd", lines),
        seconds=median(seconds) if seconds else None,
        metrics=_means(played, "metrics"),
        judged=_means(played, "judged"),
        models=tuple(dict.fromkeys(model for turn in turns if (model := turn.get("model")))),
        addresses=tuple(dict.fromkeys(address for each in played if (address := each.get("address")))),
        **_unjudged(played),
    )


def _unjudged(episodes: Sequence[Record]) -> dict[str, int]:
    """Returns how many texts and answers have no verdict, and of how many; nothing where all have one."""
    missing = [entry for each in episodes for entry in each.get("unjudged") or ()]
    if not missing:
        return {}
    texts = sum(len(turn["scores"]) for each in episodes for turn in each["turns"])
    measures = sum(name in (each.get("judged") or {}) for each in episodes for name in GRADED_MEASURES)
    return {
        "num_unjudged": len(missing),
        "num_asked": texts + measures + sum("kept" not in entry for entry in missing),
    }


def _over_repeats(
    by_level: Mapping[int, Sequence[bool]], estimate: Callable[[int, int, int], float]
) -> dict[int, float]:
    """Returns an estimate by k: powers of 2 up to the repeats that every level has, and their number itself."""
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
    told = [each.get(kind) or {} for each in episodes]
    names = dict.fromkeys(name for each in told for name in each)
    return {name: fmean(each[name] for each in told if name in each) for name in names}


def spent(name: Literal["usd", "tokens"], lines: Sequence[Record]) -> float | None:
    """Returns what all tries took, those that failed until they did; None if none of them says, or a whole one not."""
    played = [line.get(name) for line in lines if not line["error"]]
    # What ended an episode has no price; what came before it was paid all the same
    usages = [turn["usage"] for line in lines if line["error"] for turn in line.get("turns", ())]
    lost = [usage[part] for usage in usages for part in _PARTS[name] if part in usage]
    known = _known([*played, *lost])
    return None if None in played or not known else float(sum(known))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are known; None if none is."""
    known = _known(values)
    return float(fmean(known)) if known else None


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two agents on the levels of one world that both have played.

    Attributes:
        world: What the board calls it.
        first: One agent.
        second: The other one.
        outcomes: Which of them solved what, of episodes with equal level and repeat.
        p_value: That they solve equally many, by `outcomes.test`: McNemar's exact test, or a sign-flip test of whole
            clusters if levels were played several times or share an image or a document. Holm-corrected over all pairs
            of contestants in all worlds; pairs with a reference are a family of their own.
        reward: Difference of their mean returns, its p-value corrected in the same way.
    """

    world: str
    first: str
    second: str
    outcomes: PairedOutcomes
    p_value: float
    reward: PairedDifference


def pairs(episodes: Sequence[Record]) -> list[Pair]:
    """Returns every pair of agents in every world, on the levels that both have played, p-values corrected."""
    worlds: dict[str, dict[str, dict[Level, Record]]] = defaultdict(lambda: defaultdict(dict))
    for each in episodes:
        if not each["error"]:
            worlds[each["world"]][each["agent"]][each["seed"], each["repeat"]] = each
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
    """Returns the actions a solved episode carried out, over those of an optimal plan; None where nobody knows one."""
    needed = _needed(episode)
    return sum(len(turn["actions"]) for turn in _until_solved(episode)) / needed if needed else None


def turns_to_success(episode: Record) -> int:
    """Returns the turns that a solved episode took."""
    return len(_until_solved(episode))


def turns_over_optimal(episode: Record, actions_per_turn: int | None) -> float | None:
    """Returns the turns a solved episode took, over those in which an optimal plan can be carried out.

    Args:
        episode: As a board stores it.
        actions_per_turn: Most actions of a turn; None where nobody knows.

    Returns:
        The ratio, at least 1; None where nobody knows a plan or how many actions a turn has.
    """
    needed = _needed(episode)
    if not needed or not actions_per_turn:
        return None
    return turns_to_success(episode) / math.ceil(needed / actions_per_turn)


def regrets(episode: Record) -> list[float | None]:
    """Returns the actions each turn wasted: those it carried out, and how many fewer are needed than before it.

    Returns:
        One number a turn, 0 for a part of an optimal plan; None where nobody knows a plan, where nothing was done or
        left to do, and for the turn that made the level unsolvable, for which no number of actions makes up.
    """
    wasted: list[float | None] = []
    for index, turn in enumerate(episode["turns"]):
        # Whatever a world says of a plan from its end
        before, left = _optimal(turn), 0 if _solves(episode, index) else turn["optimal_actions_left"]
        if not before or left is None or not turn["actions"] or _ruins(episode, index):
            wasted.append(None)
        else:
            wasted.append(max(0.0, float(len(turn["actions"]) + left - before)))
    return wasted


def ruined_at(episode: Record) -> int | None:
    """Returns the index of the turn that made the level unsolvable, or ended it unsolved; None if none did."""
    return next((index for index in range(len(episode["turns"])) if _ruins(episode, index)), None)


def is_solver_known(episode: Record) -> bool:
    """Returns whether the world said of any turn how far the level was from its solution."""
    return any(_optimal(turn) is not None for turn in episode["turns"])


def _needed(episode: Record) -> int | None:
    return _optimal(episode["turns"][0]) if episode["turns"] else None


def _optimal(turn: Record) -> int | None:
    """Returns the length of an optimal plan before a turn; None where nobody knows one."""
    is_asked = "sample_id" in (turn.get("state") or {})
    return None if is_asked else turn["optimal_actions_before"]


def _until_solved(episode: Record) -> list[Record]:
    """Returns the turns up to the one that left nothing to do."""
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
    """Returns Holm-corrected p-values of pairs of agents, in their order.

    `random`, `lazy`, and `oracle` are on every board to give numbers a scale. Comparisons with them are corrected among
    themselves and do not weaken comparisons of contestants.
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
    """Returns why a response could not be read, as a clause that follows "because".

    The clause quotes nothing from the response, so turns can be counted by it.
    """
    return _QUOTED_ACTION.sub("the answer does not begin with an action", _EXAMPLE.sub("", why_unread_exactly(turn)))


def why_unread_exactly(turn: Record) -> str:
    """Returns the same clause with the beginning of the answer, if that is the reason."""
    if reason := _OF_STOPS.get(turn["stop_reason"]):
        return reason
    if not turn["response"].strip():
        thought = bool(str(turn.get("thoughts") or "").strip())
        return "the response held only thoughts and no answer" if thought else "the response was empty"
    return str(turn.get("unread") or turn["parse_error"])
