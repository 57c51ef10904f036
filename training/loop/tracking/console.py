"""What a person sees while a run goes on: a progress bar with the time left, and one line per evaluation."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class RunConsole:
    """A progress bar, or, if the output is not a terminal, a line after the first step and every `every` steps."""

    def __init__(self, title: str, total: int, *, every: int = 10) -> None:
        self.console = Console()
        self._every, self._total, self._title = every, total, title
        self._num_done, self._started = 0, time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[shown]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._progress.add_task(title, total=total, shown="")

    def __enter__(self) -> RunConsole:
        """Starts drawing."""
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stops drawing."""
        self._progress.stop()

    def advance(self, step: int, metrics: dict[str, float], shown: tuple[str, ...]) -> None:
        """Shows that a step is done."""
        self._num_done += 1
        text = "  ".join(f"{name} {metrics[name]:.3g}" for name in shown if name in metrics)
        self._progress.update(self._task, completed=step + 1, shown=text)
        is_shown = self._num_done == 1 or (step + 1) % self._every == 0 or step + 1 == self._total
        if not self.console.is_terminal and is_shown:
            line = f"{self._title} {step + 1}/{self._total}  {text}{self._left(self._total - step - 1)}"
            self.console.print(line, highlight=False, soft_wrap=True)

    def _left(self, num_steps: int) -> str:
        """Returns how long the remaining steps take if they take as long as those that this console saw."""
        left_s = num_steps * (time.monotonic() - self._started) / self._num_done
        if not num_steps:
            return ""
        return f"  about {left_s / 60:.0f} min left" if left_s >= 90 else f"  about {left_s:.0f} s left"

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        self.console.print(text, highlight=False)
