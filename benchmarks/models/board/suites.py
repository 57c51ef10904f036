"""Named suites: worlds and numbers of levels that a board can be asked for by name, and that never change unnoticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.models.board.spec import WorldSpec, digest_of
from vlm_envs.records.json_lines import Record
from vlm_envs.validation import require_choice


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Worlds that are measured together.

    Attributes:
        name: Its name.
        version: Goes up with every change of what is measured; numbers of different versions are not comparable.
        worlds: As `--world` takes them.
        episodes: Levels of each.
        summary: One line.
    """

    name: str
    version: int
    worlds: tuple[str, ...]
    episodes: int
    summary: str

    def specs(self, split: str = "test", reading: str = "strict") -> list[WorldSpec]:
        """Returns its worlds."""
        return [WorldSpec.parse(world, split, reading) for world in self.worlds]

    def digest(self, worlds: Sequence[WorldSpec]) -> str:
        """Returns the hash of its version and of what its worlds show; boards record the reading separately.

        Args:
            worlds: Its worlds, as `specs` returns them.
        """
        return digest_of([self.name, self.version, self.episodes, [world.level_digest for world in worlds]])

    def record(self, worlds: Sequence[WorldSpec]) -> Record:
        """Returns it as a board stores it.

        Args:
            worlds: Its worlds, as `specs` returns them.
        """
        return {"name": self.name, "version": self.version, "digest": self.digest(worlds)}


SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            name="lite",
            version=1,
            worlds=("VLM/FrozenLake-v0", "VLM/Sokoban-v0", "VLM/ZoomQA-v0"),
            episodes=64,
            summary="grids and zoom; needs no engine",
        ),
        Suite(
            name="full",
            version=1,
            worlds=(
                "VLM/FrozenLake-v0",
                "VLM/Sokoban-v0",
                "VLM/Navigation-v0",
                "VLM/PrimitiveSkill-v0",
                "VLM/SVG-v0",
                "VLM/ZoomQA-v0",
                "VLM/DocQA-v0",
                "VLM/RewardJudging-v0",
            ),
            episodes=256,
            summary="eight worlds; needs every engine",
        ),
    )
}


def suite_named(name: str) -> Suite:
    """Returns a suite; raises `ConfigError` if there is none of that name."""
    return SUITES[require_choice("--suite", name, SUITES)]
