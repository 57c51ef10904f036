"""The numbers a report opens with: success before and after, how sure they are, and what was trained."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlm_envs.records.episode_record import episode_keys, levels_of, world_of
from vlm_envs.records.json_lines import MissingRunDataError, Record
from vlm_envs.records.run_data import PHASES, RunReader
from vlm_envs.statistics.paired_tests import PairedOutcomes, pair_outcomes
from vlm_envs.statistics.success_rates import Interval, cluster_of, counted_episodes, num_levels_of, wilson_interval


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A success rate.

    Attributes:
        label: The evaluation's label.
        num_successes: Episodes solved.
        num_episodes: Episodes played.
        num_levels: Distinct levels of these episodes.
        interval: 95% interval.
    """

    label: str
    num_successes: int
    num_episodes: int
    num_levels: int
    interval: Interval

    @property
    def value(self) -> float:
        """Share of episodes solved."""
        return self.num_successes / self.num_episodes


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One world before and after.

    Attributes:
        env_id: The world, as its mix calls it.
        levels: What it was evaluated on, such as `"held-out test levels"`.
        rates: The first and the last evaluation, or the only one.
        paired: Outcomes of the recorded episodes that were played both times; None if there are none.
        num_paired_levels: Distinct levels of these episodes.
        chosen: Which policy the last evaluation is of, where it was chosen on validation levels; else empty.
    """

    env_id: str
    levels: str
    rates: tuple[Rate, ...]
    paired: PairedOutcomes | None
    num_paired_levels: int = 0
    chosen: str = ""

    @property
    def played_on(self) -> str:
        """Number of episodes or levels of the last evaluation, and what they are called."""
        return counted_episodes(self.rates[-1].num_episodes, self.rates[-1].num_levels, self.levels)

    @property
    def paired_on(self) -> str:
        """Number of recorded episodes or levels that were played both times."""
        num_pairs = 0 if self.paired is None else self.paired.num_pairs
        return counted_episodes(num_pairs, self.num_paired_levels, "recorded levels")


def comparisons(reader: RunReader) -> list[Comparison]:
    """Compares the first and last evaluation of each world, on the split the whole run was judged by.

    `"before"` and `"after"` are the labels compared where they exist, because evaluations in between may be on other
    levels.
    """
    by_world: dict[str, list[Record]] = {}
    for line in reader.evaluations():
        if line.get("num_episodes"):
            by_world.setdefault(world_of(line), []).append(line)
    return [_compare(reader, env_id, lines) for env_id, lines in by_world.items()]


def compare_runs(readers: Mapping[str, RunReader]) -> list[Comparison]:
    """Compares the last evaluation of two runs by name, world by world, where both were evaluated on the same split."""
    (first, first_reader), (second, second_reader) = readers.items()
    lines = {name: _last_lines(reader) for name, reader in readers.items()}
    compared = []
    for key in [key for key in lines[first] if key in lines[second]]:
        ends = (lines[first][key], lines[second][key])
        episodes = [
            _episodes(reader, str(line.get("label")), key[0])
            for reader, line in zip((first_reader, second_reader), ends, strict=True)
        ]
        rates = tuple(_rate({**line, "label": name}) for name, line in zip(readers, ends, strict=True))
        compared.append(Comparison(env_id=key[0], levels=key[1], rates=rates, **_paired(*episodes)))
    return compared


def _last_lines(reader: RunReader) -> dict[tuple[str, str], Record]:
    """Returns the last evaluation of each world and kind of levels."""
    return {(world_of(line), levels_of(line)): line for line in reader.evaluations() if line.get("num_episodes")}


def _compare(reader: RunReader, env_id: str, lines: Sequence[Record]) -> Comparison:
    before = next((line for line in lines if line.get("label") == "before"), lines[0])
    same_split = [line for line in lines if line.get("split") == before.get("split")]
    after = next((line for line in reversed(same_split) if line.get("label") == "after"), same_split[-1])
    ends = [before] if after is before else [before, after]
    episodes = [_episodes(reader, str(line.get("label")), env_id) for line in ends] if len(ends) == 2 else [{}, {}]
    return Comparison(
        env_id=env_id,
        levels=levels_of(before),
        rates=tuple(map(_rate, ends)),
        **_paired(*episodes),
        chosen=_chosen(ends[-1]),
    )


def _chosen(line: Record) -> str:
    """Returns which policy played, where it was the best on validation levels; empty where it was the last one."""
    iteration, success = line.get("policy_iteration"), line.get("validation_success")
    if iteration is None or success is None:
        return ""
    return f"the policy of iteration {iteration}, which solved most validation levels ({success:.1%}): best/model"


def _rate(line: Record) -> Rate:
    num_successes, num_episodes = int(line.get("num_successes") or 0), int(line["num_episodes"])
    return Rate(
        label=str(line.get("label", "evaluation")),
        num_successes=num_successes,
        num_episodes=num_episodes,
        num_levels=int(line.get("num_levels") or num_episodes),
        interval=interval_of(line),
    )


def interval_of(line: Record) -> Interval:
    """Returns the interval of an evaluation's success rate; Wilson's if its levels were not counted."""
    low, high = line.get("success_low"), line.get("success_high")
    if not line.get("num_levels") or low is None or high is None:
        return wilson_interval(int(line.get("num_successes") or 0), int(line["num_episodes"]))
    return Interval(low, high)


def _paired(first: Mapping[Hashable, Record], last: Mapping[Hashable, Record]) -> dict[str, Any]:
    """Returns the fields of a comparison that need the episodes played both times."""
    clusters = {key: cluster_of(first[key], last[key]) for key in first if key in last}
    if not clusters:
        return {"paired": None}
    before, after = ({key: bool(episodes[key]["success"]) for key in clusters} for episodes in (first, last))
    return {
        "paired": pair_outcomes(before, after, clusters),
        "num_paired_levels": num_levels_of(first[key] for key in clusters),
    }


def _episodes(reader: RunReader, label: str, env_id: str) -> dict[Hashable, Record]:
    try:
        episodes = reader.trajectories(label)
    except MissingRunDataError:
        return {}
    keys = episode_keys(episodes)
    return {key: episode for key, episode in zip(keys, episodes, strict=True) if world_of(episode) == env_id}


def find(config: Any, *names: str) -> Any:
    """Returns the value of the first key that is there, the shallowest; None if there is none."""
    for name in names:
        queue = deque([config])
        while queue:
            value = queue.popleft()
            if isinstance(value, Mapping):
                if value.get(name) is not None:
                    return value[name]
                queue.extend(value.values())
            elif isinstance(value, list):
                queue.extend(value)
    return None


def sentence(config: Record, metrics: Sequence[Record], env_ids: Sequence[str]) -> str:
    """Says in plain words what was trained, in which worlds, and how long it took."""
    model = find(config, "model")
    who = str(model).rstrip("/").split("/")[-1] if model else "A small vision-language model built from scratch"
    names = [_spoken(env_id, _adapted(config)) for env_id in env_ids]
    where = f" to play {' and '.join(names)}" if names else ""
    num_cold, num_learning = (sum(line.get("phase", PHASES[-1]) == phase for line in metrics) for phase in PHASES)
    how = find(config, "trained_with") or "reinforcement learning"
    planned = find(config, "num_iterations")
    is_unfinished = isinstance(planned, int) and num_learning < planned
    counted = f"{num_learning:,} of {planned:,}" if is_unfinished else f"{num_learning:,}"
    steps = [f"{counted} iteration{'s' * (is_unfinished or num_learning != 1)} of {how}"] if num_learning else []
    if num_cold:
        steps.insert(0, "a supervised cold start on demonstrations")
    time_s = wall_time_s(metrics)
    how_long = f", in {written_time(time_s)}" if time_s else ""
    return f"{who} was trained{where} with {' and then '.join(steps) or 'no recorded training yet'}{how_long}."


def _adapted(config: Record) -> dict[str, str]:
    """Returns the names of a run's adapted worlds by their ids."""
    worlds = find(config, "worlds")
    records = [each for each in worlds if isinstance(each, Mapping)] if isinstance(worlds, list) else []
    found = ((each.get("env_id"), find(each.get("adapted"), "name")) for each in records)
    return {str(env_id): str(name) for env_id, name in found if env_id and name}


def _spoken(world: str, adapted: Mapping[str, str]) -> str:
    """Returns a world's name without namespace and version: `"FrozenLake (size=8)"`.

    Args:
        world: As the mix calls it.
        adapted: Id to name of adapted worlds.
    """
    for env_id, name in adapted.items():
        if world == env_id or world.startswith((f"{env_id} (", f"{env_id} #")):
            world = name + world.removeprefix(env_id)
    env_id, opening, rest = world.partition(" (")
    return env_id.split("/")[-1].rsplit("-v", 1)[0] + opening + rest


def wall_time_s(metrics: Sequence[Record]) -> float:
    """Returns the time a run took, in seconds.

    `elapsed_s` may start again at 0 with each phase or resumption; the stretches are added up.
    """
    total_s = previous_s = 0.0
    for line in metrics:
        elapsed_s = float(line.get("elapsed_s") or 0.0)
        if elapsed_s < previous_s:
            total_s += previous_s
        previous_s = elapsed_s
    return total_s + previous_s


def written_time(time_s: float) -> str:
    """Writes a duration in its two largest units: `"1 h 5 min"`, `"12 min 5 s"`, `"48 s"`."""
    minutes, seconds = divmod(round(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def written_p(p_value: float) -> str:
    """Writes a p-value: `"p < 0.001"` or `"p = 0.021"`."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
