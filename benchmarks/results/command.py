"""What `python -m benchmarks results` does and prints."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class ResultsOptions:
    """Show what runs came to: on test levels, beside their starts and their lazy rivals; mixes, beside specialists.

    First a table of all recipes, whose p-values are not corrected; then what they solve beside the expert whom their
    start has imitated, where that errs, and beside their start decoded greedily; then mixes. From the second table on
    p-values are corrected by Holm's method. In pipes and in terminals that are wide enough the tables are Markdown.

    Attributes:
        add: Finished runs, such as runs/frozenlake_tiny, whose results are added, or replace those of the same
            settings. Their rivals play the same levels now: the lazy one, the expert, and their policies greedily, told
            the truth and shown grey pictures.
        results: Where results are, a file for each recipe and seed. Those in its folder `specialists` stand beside
            mixes alone.
        picture: Where the picture of all goes: success over training, beside what judges say of seeing and foreseeing.
        mix_picture: Where such a picture of the mixes goes, world by world.
        summary: Whether to print only the table of the README: start, trained, and the lazy rival of each world.
    """

    add: tuple[Path, ...] = ()
    results: Path = Path("docs/results")
    picture: Path | None = None
    mix_picture: Path | None = None
    summary: bool = False


def run_results(options: ResultsOptions) -> None:
    """Adds what is asked for, and prints the table.

    Raises:
        ConfigError: If there is nothing to show, no place for a picture, a run is not finished, or another one would
            be replaced.
    """
    # Imported here, because other benchmarks must not need torch
    from benchmarks.models.text_table import fitted_markdown
    from benchmarks.pictures import require_place
    from benchmarks.results.collect import collected, differences, file_name, require_finished
    from benchmarks.results.mixes import mix_lines
    from benchmarks.results.picture import draw, draw_mixes
    from benchmarks.results.report import expert_lines, greedy_lines, lines, load_results, summary_lines
    from benchmarks.results.result import Result

    require_place(options.picture, options.mix_picture)
    paths = {directory: options.results / file_name(directory) for directory in options.add}
    for directory, path in paths.items():
        require_finished(directory)
        same = [str(other) for other, its in paths.items() if its == path]
        require(len(same) == 1, f"{' and '.join(same)} are of one recipe and seed. Add one of them.")
        if path.is_file() and (differing := differences(Result.load(path), directory)):
            raise ConfigError(
                f"{path} is not of {directory}: it has {' and '.join(differing)}. Add the run to other "
                "results, such as --results runs/results, or move the file away."
            )
    for number, (directory, path) in enumerate(paths.items()):
        try:
            result = collected(directory)
        except KeyboardInterrupt as interrupt:
            message = f"Interrupted while the rivals of {directory} played; {number} of {len(paths)} runs are added."
            raise KeyboardInterrupt(message) from interrupt
        result.save(path)
        print(f"{path}: {len(result.worlds)} worlds", file=sys.stderr)
    results = load_results(options.results)
    if not results:
        raise ConfigError(f"There are no results in {options.results}. Add some: --add runs/frozenlake_tiny.")
    print(*fitted_markdown(summary_lines(results) if options.summary else lines(results)), sep="\n")
    if not options.summary:
        specialists = load_results(options.results / "specialists")
        for table in (expert_lines(results), greedy_lines(results), mix_lines([*results, *specialists])):
            if table:
                print("", *fitted_markdown(table), sep="\n")
    if options.picture is not None:
        draw(results, options.picture)
    if options.mix_picture is not None:
        draw_mixes(results, options.mix_picture)
