"""What a run was before the iteration that goes on: kept until that is done, and saved where it comes to nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from training.checkpoints.state import copied
from training.config.going_on import how_to_go_on
from training.engines.engine import Engine
from training.errors import GradientError, NothingLeftError, PeerError, PeerInterruptedError, SamplersLostError
from training.loop.terminated import is_peer_lost, saved_iterations

SHARED = (GradientError, NothingLeftError, SamplersLostError)
"""What all processes of a run are ended by in the same step."""


class SavedRun(Protocol):
    """A run that can be put back and saved, by all of its processes together.

    Attributes:
        directory: Where it is saved.
        engine: Its processes.
        iteration: Iterations done.
        saved_iteration: Of how many its last checkpoint is; negative if there is none yet.
    """

    directory: Path
    engine: Engine
    iteration: int
    saved_iteration: int

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next iteration depends on; of several processes, what this one has of it."""

    def load_state_dict(self, state: dict[str, Any], *, acts: bool = True) -> None:
        """Continues from what `state_dict` returned, or is only put back to be saved."""

    def save(self) -> None:
        """Writes the latest checkpoint."""


class Rescue:
    """Saves a run as of its last whole iteration, whatever ends the next one.

    One process always can. Several save together, so they can only where all of them were ended by the same thing in
    the same place (`SHARED`); any other has ended one of them, and the others wait for it elsewhere. Then the last
    checkpoint stands.

    Args:
        run: What is saved.
    """

    def __init__(self, run: SavedRun) -> None:
        self._run = run
        self._before: dict[str, Any] | None = None
        self._running: int | None = None

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Keeps what the run was before the block until that is done; nothing, if the last checkpoint has it."""
        if self._run.saved_iteration != self._run.iteration:
            self._before = copied(self._run.state_dict())
        self._running = self._run.iteration
        yield
        self._running, self._before = None, None

    def save(self, error: BaseException) -> None:
        """Saves the run as it was before what failed, and says so; if that fails, too, the last checkpoint stands."""
        run, is_shared = self._run, isinstance(error, SHARED)
        if run.saved_iteration < 0:
            return  # the first checkpoint of all is what failed
        running = self._running
        where = f"in iteration {running}" if running is not None else f"after {run.iteration} iterations"
        kept = "the last checkpoint is"
        if run.engine.num_processes == 1 or is_shared:
            kept = self._kept()
        elif is_peer_lost(error) or (run.engine.rank > 0 and isinstance(error, PeerError | PeerInterruptedError)):
            return  # which is told by who takes it, or by the main process
        else:  # a checkpoint may be in place before all know
            run.saved_iteration = saved_iterations(run.directory) or run.saved_iteration
        if run.engine.rank == 0 or not is_shared:
            after = f"as of {run.saved_iteration} iterations. Go on with {how_to_go_on()}."
            print(f"{type(error).__name__} {where}: {kept} {after}", file=sys.stderr)

    def _kept(self) -> str:
        """Puts the run back and saves it; returns what stands then, as the beginning of a sentence."""
        try:
            if self._before is not None:
                self._run.load_state_dict(self._before, acts=False)
            if self._before is not None or self._running is None:
                self._run.save()
        except Exception as second:
            return f"this run could not be saved ({type(second).__name__}: {second}); the last checkpoint is"
        return "saved"
