"""How a run ended, for people: who left early, what went wrong, and what to do about it."""

from __future__ import annotations

import re

from benchmarks.models.play.contestants import Contestant
from benchmarks.models.play.run import BoardRun
from vlm_envs.qa.datasets.unshown import told_left_out

_AGAIN = "The same command tries again."


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
    num_errors = {total.label: total.num_errors for total in run.progress.agents()}
    players = {each.label: each for each in run.contestants}
    for label, failure in run.failures.items():
        how_often = f" {num_errors[label]} times" if num_errors[label] > 1 else ""
        remedy = _remedy(failure, players[label])
        lines.append(f"{label} failed{how_often}, at last: {failure.rstrip('.')}. {remedy}{_AGAIN}")
    return lines


def _remedy(failure: str, contestant: Contestant) -> str:
    """Returns what has to be done before the next try, of what does not pass by itself; else nothing."""
    status = re.search(r"\bHTTP (\d{3})\b", failure)
    if status is None or not contestant.asks_endpoint:
        return ""
    config = contestant.agent.client.config  # type: ignore[attr-defined]
    if status[1] in ("401", "403"):
        return f"Check the key in {config.key_variable or 'a variable named with api_key_variable=NAME'}. "
    if status[1] != "404":
        return ""
    if "model" in failure.lower() or not config.address:
        return "Check the model's name. "
    return "Check the address: it needs its version, such as /v1. "
