"""Runs the tests of what changed since a branch point, nearest first, until time is up.

    python -m tests.quick [--base main] [--limit-s 50]

A changed module's tests are those of the same name, then those of its folder; a changed test file is run itself; a
changed helper of tests runs the tests of its folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PACKAGES = ("vlm_envs", "agents", "judges", "training", "benchmarks")
DOCUMENTS = ("tests/unit/test_documents.py", "tests/unit/test_repository.py")
CHANGED_DOCUMENTS = (".md", "Makefile", "pyproject.toml")


def changed_files(base: str) -> list[str]:
    """Returns the files that differ from the last commit shared with a branch, uncommitted and new ones included."""

    def git(*words: str) -> list[str]:
        return subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split()

    try:
        (point,) = git("merge-base", base, "HEAD")
    except subprocess.CalledProcessError:
        sys.exit(f"There is no branch or commit {base!r} to compare with. Name another: make quick BASE=origin/main")
    return sorted({*git("diff", "--name-only", point), *git("ls-files", "--others", "--exclude-standard")})


def tests_of(file: str) -> list[str]:
    """Returns the test files of a changed file, nearest first."""
    path = Path(file)
    if file.startswith("tests/") and path.suffix == ".py":
        is_test = path.name.startswith("test_")
        return _existing([path]) if is_test else _existing((CHECKOUT / path.parent).glob("test_*.py"))
    if path.name.endswith(CHANGED_DOCUMENTS):
        return _existing(map(Path, DOCUMENTS))
    if path.parts[0] not in PACKAGES:
        return []
    folder = Path("tests/unit", path.parent)
    while not (CHECKOUT / folder).is_dir():
        folder = folder.parent
    there = _existing((CHECKOUT / folder).glob("test_*.py"))
    named = [test for test in there if Path(test).stem.startswith(f"test_{path.stem}")]
    return [*named, *(test for test in there if test not in named)]


def nearest_first(files: Iterable[str]) -> list[str]:
    """Returns the tests of all changed files: the nearest of each, then the second nearest, and so on."""
    chosen = [tests_of(file) for file in files]
    longest = max(map(len, chosen), default=0)
    return [*dict.fromkeys(tests[rank] for rank in range(longest) for tests in chosen if rank < len(tests))]


def _existing(paths: Iterable[Path]) -> list[str]:
    return sorted(str((CHECKOUT / path).relative_to(CHECKOUT)) for path in paths if (CHECKOUT / path).is_file())


class UntilTimeIsUp:
    """A pytest plugin that stops after the first test that ends behind a deadline.

    Attributes:
        num_left: How many tests were not run.
    """

    def __init__(self, limit_s: float) -> None:
        self._deadline = time.monotonic() + limit_s
        self._session: pytest.Session | None = None
        self.is_up, self.num_left = False, 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Counts the tests."""
        self._session, self.num_left = session, len(session.items)

    def pytest_runtest_logfinish(self) -> None:
        """Looks at the clock."""
        self.num_left -= 1
        if self._session is not None and self.num_left and time.monotonic() > self._deadline:
            self.is_up = True
            self._session.shouldstop = f"time is up; `make test` also runs the other {self.num_left} tests"


def main() -> int:
    """Returns pytest's exit code; 0 if nothing that has tests was changed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", default="main")
    parser.add_argument("--limit-s", type=float, default=50.0)
    options = parser.parse_args()
    tests = nearest_first(changed_files(options.base))
    if not tests:
        print("No file with tests differs from", options.base)
        return 0
    limit = UntilTimeIsUp(options.limit_s)
    code = int(pytest.main(["-x", "-q", "-m", "not soak", "-p", "no:xdist", *tests], plugins=[limit]))
    is_fine = code == pytest.ExitCode.NO_TESTS_COLLECTED or (code == pytest.ExitCode.INTERRUPTED and limit.is_up)
    return 0 if is_fine else code


if __name__ == "__main__":
    sys.exit(main())
