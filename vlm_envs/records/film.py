"""Recorded episodes as a short animation: the images an agent is shown, next to its response, section by section."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from vlm_envs.records.json_lines import MissingRunDataError, Record, replace_file
from vlm_envs.records.report_mistakes import options_of
from vlm_envs.records.run_data import ImageStore, RunReader, is_training_label
from vlm_envs.splits import level_name
from vlm_envs.validation import require

PICTURE_PX, TEXT_PX, MARGIN_PX, FONT_PX = 280, 520, 16, 15
INK, PALE, PAPER = "#22303c", "#7a8894", "#ffffff"
COLOURS = {"observation": "#2f6db5", "reasoning": "#4c4f56", "prediction": "#8a5fb0", "answer": "#b3541e"}
"""Colors of the names of sections; others use `INK`."""
SECTION_MS, TURN_MS, END_MS = 900, 1100, 2200
"""Display time of a new section, of a whole turn, and of the end of an episode, in milliseconds."""
_WIDTH = TEXT_PX // (FONT_PX // 2)
"""Width of a line, in characters."""
_MAX_QUESTION_LINES = 12
USUAL_LABEL = "after"
NUM_COLOURS = 256
"""Number of colors of all frames together, the maximum of a GIF's palette."""


def write_film(
    run: str | Path, path: Path, *, label: str | None = None, seeds: Sequence[int] = (), num_episodes: int = 3
) -> int:
    """Writes recorded episodes as an animated GIF that loops forever.

    Args:
        run: Directory of a run, or of any recorded episodes.
        path: Path of the GIF.
        label: Label of an evaluation with recorded episodes; by default `after`, or the last one if there is
            no `after`.
        seeds: Levels to show, in this order; empty for the first solved ones with several turns.
        num_episodes: Number of these.

    Returns:
        The file's size in bytes.

    Raises:
        MissingRunDataError: If the episodes do not exist.
    """
    reader = RunReader(run)
    recorded = reader.trajectories(_usual_label(reader) if label is None else label)
    frames = list(_film(_chosen(recorded, seeds, num_episodes), ImageStore(Path(run))))
    images = _with_one_palette([image for image, _ in frames])
    buffer = io.BytesIO()
    durations = [duration_ms for _, duration_ms in frames]
    images[0].save(buffer, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True)
    replace_file(path, buffer.getvalue())
    return len(buffer.getvalue())


def _usual_label(reader: RunReader) -> str:
    """Returns `after`, the trainers' label of the last evaluation, or the last other label if there is no `after`."""
    labels = reader.trajectory_labels()
    evaluated = [label for label in labels if not is_training_label(label)]
    return USUAL_LABEL if USUAL_LABEL in labels else next(reversed(evaluated or labels), USUAL_LABEL)


def _chosen(episodes: Sequence[Record], seeds: Sequence[int], num_episodes: int) -> list[Record]:
    """Returns the episodes to show, preferring those with several turns, which show more than one thought."""
    if not seeds:
        solved = [episode for episode in episodes if episode["success"]]
        return (sorted(solved, key=lambda each: len(each["turns"]) < 2) or list(episodes))[:num_episodes]
    by_seed = {int(episode["seed"]): episode for episode in episodes}
    missing = [seed for seed in seeds if seed not in by_seed]
    if missing:
        raise MissingRunDataError(f"No recorded episode has the seed {missing[0]}; recorded seeds: {sorted(by_seed)}.")
    return [by_seed[seed] for seed in seeds]


def _film(episodes: Sequence[Record], images: ImageStore) -> Iterator[tuple[Image.Image, int]]:
    """Yields frames with their display times, in milliseconds."""
    require(bool(episodes), "There is no recorded episode to show.")
    height = max(_height([*_question(turn), *_sections(turn)]) for episode in episodes for turn in episode["turns"])
    for episode in episodes:
        picture: Image.Image | None = None
        name = f"{episode['world'] or episode['env_id']}, {level_name(int(episode['seed']))}"
        for number, turn in enumerate(episode["turns"], start=1):
            picture, asked, sections = _picture(turn, images) or picture, _question(turn), _sections(turn)
            for shown in range(len(sections) + 1):
                duration_ms = TURN_MS if shown == len(sections) else SECTION_MS
                yield _frame(f"{name}, turn {number}", picture, [*asked, *sections[:shown]], height), duration_ms
        end = "solved" if episode["success"] else "not solved"
        yield (
            _frame(f"{name}: {end}", _picture(episode["final"], images) or picture, [*asked, *sections], height),
            END_MS,
        )


def _with_one_palette(frames: Sequence[Image.Image]) -> list[Image.Image]:
    """Returns frames of one size with a common palette: with separate ones, static parts would change color."""
    width, height = frames[0].size
    together = Image.new("RGB", (width, height * len(frames)))
    for number, frame in enumerate(frames):
        together.paste(frame, (0, number * height))
    common = together.quantize(NUM_COLOURS)
    return [frame.quantize(palette=common, dither=Image.Dither.NONE) for frame in frames]


def _question(turn: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Returns the question of an episode with its options, as a section of lines; empty for other episodes."""
    state = turn.get("state") or {}
    texts = filter(None, (state.get("question"), *options_of(state)))
    lines = [line for text in texts for line in textwrap.wrap(str(text), _WIDTH)]
    return [("question", lines[:_MAX_QUESTION_LINES])] if lines else []


def _sections(turn: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Returns the sections of a response as lines; the whole response as one section if it could not be read."""
    said = {name: str(text) for name, text in turn["sections"].items() if str(text).strip()}
    return [(name, textwrap.wrap(text, _WIDTH)[:6]) for name, text in (said or {"": turn["response"]}).items()]


def _height(sections: Sequence[tuple[str, list[str]]]) -> int:
    num_lines = sum(1 + len(lines) for _, lines in sections)
    return max(PICTURE_PX, (num_lines + 1) * (FONT_PX + 5)) + 3 * MARGIN_PX + FONT_PX


def _picture(shown: Mapping[str, Any], images: ImageStore) -> Image.Image | None:
    """Returns the last image shown, at the size used in the film."""
    if not shown["images"]:
        return None
    image = Image.open(io.BytesIO(images.load(shown["images"][-1]))).convert("RGB")
    scale = PICTURE_PX / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS)


def _frame(
    title: str, picture: Image.Image | None, sections: Sequence[tuple[str, list[str]]], height: int
) -> Image.Image:
    """Returns a frame: the title, the image on the left, and the response on the right."""
    frame = Image.new("RGB", (PICTURE_PX + TEXT_PX + 3 * MARGIN_PX, height), PAPER)
    draw, font = ImageDraw.Draw(frame), ImageFont.load_default(size=FONT_PX)
    draw.text((MARGIN_PX, MARGIN_PX), title, PALE, font)
    top = 2 * MARGIN_PX + FONT_PX
    if picture is not None:
        frame.paste(picture, (MARGIN_PX, top))
    left, y = PICTURE_PX + 2 * MARGIN_PX, top
    for name, lines in sections:
        for text, colour in [(name, COLOURS.get(name, INK))] * bool(name) + [(line, INK) for line in lines]:
            draw.text((left, y), text, colour, font)
            y += FONT_PX + 5
        y += 4
    return frame
