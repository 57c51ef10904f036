"""Messages at the end of a run: which agents stopped early, which errors occurred, and what to do."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median_low

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

_WITHOUT_VISION = (
    r"at most 0 (?:image|multimodal)|not a multimodal model|image input is not supported"
    r"|(?:not|n't|cannot) (?:support|accept|process)\w* (?:image|vision|multimodal)"
)
_REMEDIES = {
    "HTTP 40[13]": "Check the key in {key}.",
    f"HTTP 4.*(?:{_WITHOUT_VISION})": "The server takes no images; serve a vision model.",
    "HTTP 400.*(?:max_(?:completion_|output_|new_)?tokens|output tokens|context length)": (
        "To lower the limit of a response, max_tokens={limit}, to N, run the agent {renamed}."
    ),
    "HTTP 404": "Check the model's name and the address, which needs its version, such as /v1.",
    "HTTP 4": "Fix its settings.",
}
"""Suggestions for permanent provider failures, by regex; the first match applies."""
_AGAIN = "The same command tries again."


def told_of(run: BoardRun) -> list[str]:
    """Returns why a run did not play every level, one line per reason."""
    lines = [told_left_out(world, faults.values()) for world, faults in run.left_out.items() if faults]
    lines += [
        f"{part.agent} left {part.world} after {part.num_done:,} of {part.num_wanted:,} episodes: its interval is "
        f"narrow enough, ±{part.half_width:.3f}."
        for part in run.progress.parts
        if run.is_narrow_enough(part) and part.num_done < part.num_wanted
    ]
    if run.reason:
        # Computed at the end, because episodes that were still running cost money, too
        spent = f" ({run.spent_usd:.2f} USD on this board)" if run.plan.budget_usd is not None else ""
        lines.append(f"Stopped: {run.reason}{spent}. {run.remedy}")
    counts = run.not_started()
    if run.reason and counts:
        total = sum(count for _, count in counts)
        lines.append(f"{_episodes(total)} {'were' if total > 1 else 'was'} not started.")
    else:
        lines += [
            f"{part.agent} left {part.world} with {_episodes(count)} not started, because the last "
            f"{part.num_failed_in_a_row} failed. The same command starts with these."
            for part, count in counts
            if part.has_left
        ]
    num_errors = {total.label: total.num_errors for total in run.progress.agents()}
    players = {contestant.label: contestant for contestant in run.contestants}
    for label, failure in run.failures.items():
        how_often = f" {num_errors[label]} times" if num_errors[label] > 1 else ""
        lines.append(f"{label} failed{how_often}, at last: {failure.rstrip('.')}. {_remedy(failure, players[label])}")
    return lines


def _episodes(count: int) -> str:
    return f"{count:,} episode{'s' * (count > 1)}"


def unread_of(run: BoardRun) -> list[str]:
    """Returns messages about an agent's unread, cut-off, and uncounted responses and about changed model IDs.

    Covers all of the agent's turns on the board, except in episodes that ended with an error. Unread responses are
    counted by world, so that worlds with many turns do not hide one with few; cut-off responses are counted over all
    worlds, as their limit is the agent's.
    """
    worlds = [world["label"] for world in run.board.record["worlds"]]
    played = [episode for episode in run.board.episodes() if not episode["error"]]
    lines: list[str] = []
    for player in run.contestants:
        turns: list[Record] = []
        for world in worlds:
            where = f" in {world}" if len(worlds) > 1 else ""
            episodes = [episode for episode in played if (episode["agent"], episode["world"]) == (player.label, world)]
            lines += _limit_lines(player, where, episodes)
            of_world = [turn for episode in episodes for turn in episode["turns"]]
            lines += _unread_line(player.label, where, of_world)
            turns += of_world
        lines += _cut_line(player, turns)
        models = Counter(model for turn in turns if (model := turn.get("model")))
        if len(models) > 1:
            counts = ", ".join(f"{model} ({count:,} responses)" for model, count in models.items())
            lines.append(
                f"{player.label}: the server returned {len(models)} model IDs, which count as one agent here: "
                f"{counts}. To measure a new version by itself, add it with as=NAME."
            )
        if uncounted := int(sum(turn["usage"].get("uncounted", 0) for turn in turns)):
            replies = "1 reply" if uncounted == 1 else f"{uncounted} replies"
            lines.append(
                f"{player.label}: the server did not count the tokens of {replies} in {len(turns)} turns, which are "
                "estimated."
            )
    return lines


def _limit_lines(player: Contestant, where: str, episodes: Sequence[Record]) -> Iterator[str]:
    """Yields a line for each model limit that some episodes hit, with the most common server message."""
    remedy = " Raise it on the server, or send less with history=last_images:N." if player.asks_endpoint else ""
    happened = {
        "context": ("exceeded a limit of the model", remedy),
        "content_filter": ("had turns that the model or its provider refused to answer", ""),
    }
    for reason, (what, helps) in happened.items():
        met = [
            [turn for turn in episode["turns"] if turn["stop_reason"] == reason]
            for episode in episodes
            if any(turn["stop_reason"] == reason for turn in episode["turns"])
        ]
        if met:
            details = Counter(one_line(turn.get("stop_detail") or "") for turns in met for turn in turns)
            [(detail, _)] = details.most_common(1)
            said = f" ({detail.rstrip('.')})" if detail else ""
            yield f"{player.label}: {len(met):,} of {len(episodes):,} episodes{where} {what}{said}.{helps}"


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
    counts = [turn["usage"]["completion_tokens"] for turn in cut if "completion_tokens" in turn["usage"]]
    if limit is None:
        yield f"{of_all} at the token limit."
    elif counts and (usual := median_low(counts)) < FAR_BELOW * limit:
        yield (
            f"{of_all} before {name}={limit} was reached, most of them after at most {usual:.0f} tokens: the server's "
            "context length may be too small."
        )
    else:
        yield f"{of_all} at {name}={limit}. To raise the limit, run the agent {_renamed(player, name, 2 * limit)}."


def _renamed(player: Contestant, name: str, value: object) -> str:
    """Returns how to add an agent with a changed setting to the same board, where it needs a new name."""
    if player.spec is None:
        return f"with {name}={value} under another name"
    text = player.spec.text_with(name, value)
    quoted = shlex.quote(text) if "'" in text else f"'{text}'"  # always quoted, as a period follows
    return f"under another name: {quoted}"


def _token_limit(player: Contestant) -> tuple[str, int | None]:
    """Returns the name and value of the setting that limits an agent's response length; the value may be None."""
    config = getattr(getattr(player.agent, "client", None), "config", None)
    if limit := getattr(config, "max_tokens", None):
        return "max_tokens", limit
    return "max_new_tokens", getattr(getattr(player.agent, "sampling", None), "max_new_tokens", None)


def _remedy(failure: str, contestant: Contestant) -> str:
    """Returns what to do after a failure: repeat the command, or first change what would make it fail again."""
    status = re.search(r"\bHTTP (4\d{2})\b", failure)
    if status is None or int(status[1]) in TRANSIENT_STATUSES or not contestant.asks_endpoint:
        return _AGAIN
    config = contestant.agent.client.config  # type: ignore[attr-defined]
    remedy = next(text for pattern, text in _REMEDIES.items() if re.search(pattern, failure, re.IGNORECASE | re.DOTALL))
    helps = remedy.format(
        key=config.key_variable or "a variable named with api_key_variable=NAME",
        limit=getattr(config, "max_tokens", None),
        renamed=_renamed(contestant, "max_tokens", "N"),
    )
    return helps if "{renamed}" in remedy else f"{helps} Then the same command tries again."
