"""`python -m vlm_envs film RUN`: recorded episodes as a short animation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from vlm_envs.arguments.ranges import require_at_least


@dataclass(frozen=True, kw_only=True)
class FilmOptions:
    """Write recorded episodes as an animated GIF: each picture beside what the agent says of it.

    Attributes:
        run: Directory of a run, such as runs/frozenlake_tiny, or of any recorded episodes.
        out: The file; film.gif of the run by default.
        label: Which evaluation's, such as before; by default after, or the last one where there is no after.
        seeds: Levels to show, in this order; by default the first solved ones of several turns.
        num_episodes: How many of those.
    """

    run: Annotated[str, Positional, arg(metavar="RUN")]
    out: Path | None = None
    label: str | None = None
    seeds: tuple[int, ...] = ()
    num_episodes: int = 3

    def __post_init__(self) -> None:
        """Refuses a film of nothing."""
        require_at_least(self, 1, "num_episodes")


def run_film(options: FilmOptions) -> None:
    """Writes the film, and prints where it is and how large."""
    from vlm_envs.records.film import write_film  # Pillow, for which a wrong option must not wait

    path = options.out or Path(options.run) / "film.gif"
    size = write_film(options.run, path, label=options.label, seeds=options.seeds, num_episodes=options.num_episodes)
    print(f"{path} ({size / 2**20:.2f} MB)")
