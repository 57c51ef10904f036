"""Questions about clips: what crosses the line and when, what is where at a time, what moves which way.

The answer is drawn first; clips are then tried until one has it. Of a choice the options are things that all could be
right, in random order, so that no letter and no number is right more often than another.

    order    first, last     which thing crosses the line first, or last           one of the things
             sequence        in which order three things cross it                  one of four orders
    count    crossings       how many things cross it                              a number from 0
    place    side            on which side of the line a thing is at a time        one of two
             quarter         in which quarter of the picture it is then            one of four
    time     crossing        when a thing's middle passes the line                 one of four stretches
             start, stop     when a thing starts to move, or stops                 one of four stretches
    motion   direction       which way a thing moves                               one of four
             still           which thing stands still                              one of the things
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from vlm_envs.content.scenes.clips import crossings, moves
from vlm_envs.content.scenes.clips.drawing import crosses
from vlm_envs.content.scenes.clips.question import ClipTemplate, line_of, name_of

_AT_LEAST_SIX = 6
"""Frames, so that there are four stretches in each of which a thing may start to move, or stop."""

TEMPLATES: Mapping[str, Sequence[ClipTemplate]] = {
    "order": (
        ClipTemplate(name="first", kind="choice", draft=partial(crossings.end, last=False), fewest_movers=2),
        ClipTemplate(name="last", kind="choice", draft=partial(crossings.end, last=True), fewest_movers=2),
        ClipTemplate(name="sequence", kind="choice", draft=crossings.sequence, fewest_movers=3),
    ),
    "count": (ClipTemplate(name="crossings", kind="number", draft=crossings.count),),
    "place": (
        ClipTemplate(name="side", kind="choice", draft=moves.side_then),
        ClipTemplate(name="quarter", kind="choice", draft=moves.quarter_then),
    ),
    "time": (
        ClipTemplate(
            name="crossing",
            kind="choice",
            draft=partial(
                moves.when,
                text=lambda clip: f"When does the middle of the {name_of(clip, 0)} pass {line_of(clip)}?",
                befores=lambda num_frames: range(1, num_frames),
                before=lambda clip: clip.crossing(0),
                also=crosses,
                facts=moves.told_crossing,
            ),
            fewest_frames=_AT_LEAST_SIX,
        ),
        ClipTemplate(
            name="start",
            kind="choice",
            draft=partial(
                moves.when,
                text=lambda clip: f"When does the {name_of(clip, 0)} start to move?",
                befores=lambda num_frames: range(1, num_frames - 1),
                before=lambda clip: clip.movers[0].first,
                also=moves.moves_on,
                facts=moves.told_move,
            ),
            fewest_frames=_AT_LEAST_SIX,
        ),
        ClipTemplate(
            name="stop",
            kind="choice",
            draft=partial(
                moves.when,
                text=lambda clip: f"When does the {name_of(clip, 0)} stop?",
                befores=lambda num_frames: range(2, num_frames),
                before=lambda clip: clip.movers[0].last - 1,
                also=moves.moves_on,
                facts=moves.told_move,
            ),
            fewest_frames=_AT_LEAST_SIX,
        ),
    ),
    "motion": (
        ClipTemplate(name="direction", kind="choice", draft=moves.direction),
        ClipTemplate(name="still", kind="choice", draft=moves.still, fewest_movers=2),
    ),
}
"""Ways to ask, by category."""

CATEGORIES = tuple(TEMPLATES)
"""Kinds of questions."""
