"""How a run ended, for people: who left early, what went wrong, and what to do about it."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from agents.api.failures import TRANSIENT_STATUSES, one_line
from benchmarks.models.measures.measures import unread_turns, why_unread, why_unread_exactly
from benchmarks.models.play.contestants import Contestant
from benchmarks.models.play.playing import BoardRun
from vlm_envs.qa.datasets.dataset_splits import told_left_out
from vlm_envs.records.json_lines import Record

MOST_UNREAD = 0.2
"""Share of unread turns above which the end of a run reports an agent's turns in a world."""
FAR_BELOW = 0.9
"""Share of an agent's token limit below which a cut-off response was cut off by the server."""

_OF_LENGTH = re.compile(r"max_(?:completion_|output_|new_)?tokens|output tokens|context length", re.IGNORECASE)
_WITHOUT_VISION = re.compile(
    r"at most 0 (?:image|multimodal)|not a multimodal model|image input is not supported"
    r"|(?:not|n't|cannot) (?:support|accept|process)\w* (?:image|vision|multimodal)",
    re.IGNORECASE,
)
_OF_IMAGES = re.compile(r"\b(?:images?|pictures?)\b", re.IGNORECASE)
_OF_CONTEXT = re.compile(r"context|tokens?\b|prompt|input", re.IGNORECASE)
_AGAIN = "The same command tries again."
_THEN_AGAIN = "Then the same command tries again."


def told_of(run: BoardRun) -> list[str]:
    """Returns what kept a run from playing every level, a line each."""
    lines = [told_left_out(world, faults.values()) for world, faults in run.left_out.items() if faults]
    lines += [
        f"{part.agent} left {part.world} after {part.num_done:,} of {part.num_wanted:,} episodes: its interval is "
        f"narrow enough, ±{part.half_width:.3f}."
        for part in run.progress.parts
        if run.is_narrow_enough(part) and part.num_done < part.num_wanted
    ]
    if run.reason:
        # Only now: episodes that were under way have cost something, too
        spent = f" ({run.spent_usd:.2f} USD on this board)" if run.plan.budget_usd is not None else ""
        lines.append(f"Stopped: {run.reason}{spent}. {run.remedy}")
    lines += _not_started(run)
    num_errors = {total.label: total.num_errors for total in run.progress.agents()}
    players = {each.label: each for each in run.contestants}
    for label, failure in run.failures.items():
        how_often = f" {num_errors[label]} times" if num_errors[label] > 1 else ""
        lines.append(f"{label} failed{how_often}, at last: {failure.rstrip('.')}. {_remedy(failure, players[label])}")
    return lines


def _not_started(run: BoardRun) -> Iterator[str]:
    """Yields lines on episodes that no try has started, and why."""
    counts = run.not_started()
    if run.reason and counts:
        total = sum(count for _, count in counts)
        yield f"{_episodes(total)} {'were' if total > 1 else 'was'} not started."
        return
    for part, count in counts:
        if part.has_left:
            yield (
                f"{part.agent} left {part.world} with {_episodes(count)} not started, because the last "
                f"{part.num_failed_in_a_row} failed. The same command starts with these."
            )


def _episodes(count: int) -> str:
    return f"{count:,} episode{'s' * (count > 1)}"


def unread_of(run: BoardRun) -> list[str]:
    """Returns an agent's unread, cut-off, and uncounted responses and changed models as lines for the end of a run.

    Counts all of the agent's turns on the board, except in episodes that a failure ended: unread ones by world, so that
    worlds with many turns do not hide one with few, and cut-off ones of all worlds, as their limit is the agent's.
    """
    worlds = [world["label"] for world in run.board.record["worlds"]]
    episodes: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for episode in run.board.episodes():
        if not episode["error"]:
            episodes[episode["agent"], episode["world"]].append(episode)
    lines: list[str] = []
    for player in run.contestants:
        of_all_worlds: list[Record] = []
        for world in worlds:
            where = f" in {world}" if len(worlds) > 1 else ""
            turns = [turn for episode in episodes[player.label, world] for turn in episode["turns"]]
            lines += _limit_lines(player, where, episodes[player.label, world])
            lines += _unread_line(player.label, where, turns)
            of_all_worlds += turns
        lines += _cut_line(player, of_all_worlds)
        lines += _models_line(player.label, of_all_worlds)
        lines += _uncounted_line(player.label, of_all_worlds)
    return lines


def _limit_lines(player: Contestant, where: str, episodes: Sequence[Record]) -> Iterator[str]:
    """Yields a line for each limit of the model that some episodes met, with what the server said most often."""
    for reason in ("context", "content_filter"):
        met = [turn for episode in episodes for turn in episode["turns"] if turn["stop_reason"] == reason]
        if not met:
            continue
        num_met = sum(any(turn["stop_reason"] == reason for turn in episode["turns"]) for episode in episodes)
        [(detail, _)] = Counter(one_line(turn.get("stop_detail") or "") for turn in met).most_common(1)
        said = f" ({detail.rstrip('.')})" if detail else ""
        of_all = f"{player.label}: {num_met:,} of {len(episodes):,} episodes{where}"
        if reason == "content_filter":
            yield f"{of_all} had turns that the model or its provider refused to answer{said}."
            continue
        limit = "image limit" if _OF_IMAGES.search(detail) and not _OF_CONTEXT.search(detail) else "context"
        remedy = " Raise it on the server, or send less with history=last_images:N." if player.asks_endpoint else ""
        yield f"{of_all} exceeded the model's {limit}{said}.{remedy}"


def _unread_line(label: str, where: str, turns: Sequence[Record]) -> Iterator[str]:
    unread = [turn for turn in unread_turns(turns) if turn["stop_reason"] not in ("context", "content_filter")]
    if len(unread) <= MOST_UNREAD * len(turns):
        return
    [(reason, how_often)] = Counter(map(why_unread, unread)).most_common(1)
    example = next(why_unread_exactly(turn) for turn in unread if why_unread(turn) == reason)
    share = f"; the most common reason ({how_often} of {len(unread)}): "
    why = ", because " if how_often == len(unread) else share
    yield f"{label}: {len(unread)} of {len(turns)} turns{where} could not be read{why}{example}."


def _cut_line(player: Contestant, turns: Sequence[Record]) -> Iterator[str]:
    cut = [turn for turn in turns if turn["stop_reason"] == "length"]
    if not cut:
        return
    of_all = f"{player.label}: {len(cut)} of {len(turns)} responses were cut off"
    name, limit = _token_limit(player)
    if limit is None:
        yield f"{of_all} at the token limit."
    elif tokens := _tokens_if_far_below(limit, cut):
        yield (
            f"{of_all} before {name}={limit} was reached, most of them after at most {tokens} tokens: the server's "
            "context length may be too small."
        )
    else:
        yield f"{of_all} at {name}={limit}. To raise the limit, run the agent {_renamed(player, name, 2 * limit)}."


def _models_line(label: str, turns: Sequence[Record]) -> Iterator[str]:
    models = Counter(model for turn in turns if (model := turn.get("model")))
    if len(models) > 1:
        counts = ", ".join(f"{model} ({count:,} responses)" for model, count in models.items())
        yield (
            f"{label}: the server returned {len(models)} model IDs, which count as one agent here: {counts}. To "
            "measure a new version by itself, add it with as=NAME."
        )


def _uncounted_line(label: str, turns: Sequence[Record]) -> Iterator[str]:
    uncounted = int(sum(turn["usage"].get("uncounted", 0) for turn in turns))
    if uncounted:
        replies = "1 reply" if uncounted == 1 else f"{uncounted} replies"
        yield f"{label}: the server did not count the tokens of {replies} in {len(turns)} turns, which are estimated."


def _tokens_if_far_below(limit: int, cut: Sequence[Record]) -> int:
    """Returns how long most cut-off responses are at most, if that is far below the limit; else 0.

    Responses without a count are left out.
    """
    counts = [turn["usage"]["completion_tokens"] for turn in cut if "completion_tokens" in turn["usage"]]
    short = [count for count in counts if count < FAR_BELOW * limit]
    return int(max(short)) if 2 * len(short) > len(counts) else 0


def _renamed(player: Contestant, name: str, value: object) -> str:
    """Returns how to run an agent with another setting on the same board, which keeps one agent under each name."""
    if player.spec is None:
        return f"with {name}={value} under another name"
    text = player.spec.text_with(name, value)
    quoted = shlex.quote(text) if "'" in text else f"'{text}'"  # always quoted, as a period follows
    return f"under another name: {quoted}"


def _token_limit(player: Contestant) -> tuple[str, int | None]:
    """Returns the name and value of the setting that limits an agent's responses; None as value if it has none."""
    config = getattr(getattr(player.agent, "client", None), "config", None)
    if limit := getattr(config, "max_tokens", None):
        return "max_tokens", limit
    return "max_new_tokens", getattr(getattr(player.agent, "sampling", None), "max_new_tokens", None)


def _remedy(failure: str, contestant: Contestant) -> str:
    """Returns what to do after a failure: repeat the command, or change something first if it would fail again."""
    status = re.search(r"\bHTTP ([34]\d{2})\b", failure)
    if status is None or int(status[1]) in TRANSIENT_STATUSES or not contestant.asks_endpoint:
        return _AGAIN
    config = contestant.agent.client.config  # type: ignore[attr-defined]
    if status[1] in ("401", "403"):
        return f"Check the key in {config.key_variable or 'a variable named with api_key_variable=NAME'}. {_THEN_AGAIN}"
    if _WITHOUT_VISION.search(failure):
        return f"The server takes no images; serve a vision model. {_THEN_AGAIN}"
    if status[1] == "400" and _OF_LENGTH.search(failure):
        renamed = _renamed(contestant, "max_tokens", "N")
        return f"To lower the limit of a response, max_tokens={config.max_tokens}, to N, run the agent {renamed}."
    if status[1] != "404":
        return "Fix its settings; then the same command tries again."
    if "model" in failure.lower() or not config.address:
        return f"Check the model's name. {_THEN_AGAIN}"
    return f"Check the address: it needs its version, such as /v1. {_THEN_AGAIN}"
