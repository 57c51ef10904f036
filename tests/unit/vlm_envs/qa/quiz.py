"""A source of small questions for tests: one coloured square on grey, and its colour asked for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from vlm_envs.errors import LevelError
from vlm_envs.qa.qa_context import PictureContext
from vlm_envs.qa.qa_world import QAWorld
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.qa.strategies import STRATEGIES, Views, ViewsStrategy
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.splits import split_of
from vlm_envs.tools.coordinates import Box, Coordinates, OriginalPixels, Point
from vlm_envs.tools.pictures import Picture

COLORS = {"red": (220, 30, 30), "green": (30, 160, 30), "blue": (30, 60, 220)}
SIDE_PX, SQUARE_PX = 400, 10


class Quiz:
    """Squares of three colours anywhere in a grey picture."""

    name = "quiz"

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a square of the split."""
        while True:
            sample = self.find(f"quiz:{rng.integers(10**6)}")
            if split_of(sample.digest.encode()) == split:
                return sample

    def find(self, sample_id: str) -> Sample:
        """Returns the square of a number."""
        if not (match := re.fullmatch(r"quiz:(\d{1,7})", sample_id, flags=re.ASCII)):
            raise LevelError(f"Expected quiz: and a number; got {sample_id[:50]!r}.")
        rng = np.random.default_rng(int(match[1]))
        color = list(COLORS)[rng.integers(3)]
        left, top = (int(rng.integers(SIDE_PX - SQUARE_PX)) for _ in range(2))
        pixels = np.full((SIDE_PX, SIDE_PX, 3), 128, np.uint8)
        pixels[top : top + SQUARE_PX, left : left + SQUARE_PX] = COLORS[color]
        space = OriginalPixels(SIDE_PX, SIDE_PX)
        box = Box(left, top, left + SQUARE_PX, top + SQUARE_PX, space)
        return Sample(
            sample_id=sample_id,
            question="What colour is the square?",
            key=AnswerKey(kind="choice", answers=("abc"[list(COLORS).index(color)],), options=tuple(COLORS)),
            category="attribute",
            digest=f"{color} {left} {top}",
            images=(Picture(pixels),),
            evidence=(Evidence(label="square", box=box, point=Point(left + 5, top + 5, space)),),
            facts=f"The square is {color}.",
        )


class QuizWorld(QAWorld):
    """Asks for the colour of a square."""

    def __init__(
        self,
        *,
        prompt_format: str = "arm",
        max_pixels: int = 10_000,
        coordinates: Coordinates | None = None,
        views: Views = "both",
        **world_kwargs: Any,
    ) -> None:
        super().__init__(
            name="Quiz",
            goal="Answer a question about a picture.",
            source=Quiz(),
            context=PictureContext(max_pixels=max_pixels, coordinates=coordinates),
            strategies=STRATEGIES | {"ivgr_views": ViewsStrategy(views=views)},
            prompt_format=prompt_format,
            **world_kwargs,
        )
