"""Changes one expression of a central file at a time, and reports which changes the tests of `make test` notice.

    python -m tests.mutants                       # 120 mutants of HEAD
    python -m tests.mutants --revision main       # of another revision
    python -m tests.mutants --like REV            # the mutants of REV, wherever their lines still exist
    python -m tests.mutants --only 3 17 90        # some of them by number

Mutants are applied to a copy of the revision in a temporary folder. Each runs in a process forked from one that has
imported the slow libraries, against the tests of its file, nearest first, up to the first failure.
"""

from __future__ import annotations

import argparse
import ast
import copy
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
SEED = 47
UNIT = "tests/unit/"
TESTS: dict[str, str] = {
    "vlm_envs/world.py": "vlm_envs/test_world.py vlm_envs/test_feedback.py vlm_envs/worlds/test_frozen_lake.py",
    "vlm_envs/trajectory.py": "vlm_envs/records/test_run_data.py agents/test_rollout.py training/test_batch.py",
    "vlm_envs/splits.py": "vlm_envs/test_splits.py",
    "vlm_envs/spaces.py": "vlm_envs/test_spaces.py vlm_envs/test_world.py",
    "vlm_envs/responses/parsing.py": "vlm_envs/responses vlm_envs/test_world.py judges/test_turn_rewards.py",
    "vlm_envs/responses/answers.py": "vlm_envs/responses vlm_envs/qa/test_qa_world.py vlm_envs/qa/test_datasets.py",
    "vlm_envs/vector/vector_world.py": (
        "vlm_envs/vector/test_vector_world.py vlm_envs/vector/test_vector_hostile_calls.py"
    ),
    "vlm_envs/records/replay.py": "vlm_envs/records/test_replay.py",
    "vlm_envs/statistics/success_rates.py": "vlm_envs/statistics/test_success_rates.py",
    "agents/rollout.py": "agents/test_rollout.py agents/test_resets_one_by_one.py agents/test_rollouts_of_a_mix.py",
    "agents/agent.py": "agents/test_rollout.py agents/test_evaluation_rollout.py agents/hf/test_context.py",
    "agents/hf/chat.py": "agents/hf/test_context.py agents/hf/test_hf_agent.py agents/hf/test_chat.py",
    "judges/scores.py": "judges/test_asking.py judges/test_turn_rewards.py judges/test_repetition_penalty.py "
    "judges/episode_rewards/test_episodes.py",
    "judges/state_text/exact_judge.py": "judges/state_text",
    "judges/state_text/tally.py": "judges/state_text",
    "judges/repetition_penalty.py": "judges/test_repetition_penalty.py",
    "judges/turn_rewards.py": "judges/test_turn_rewards.py judges/test_repetition_penalty.py judges/test_thoughts.py "
    "training/rewards/test_episode_rewards.py",
    "training/batch.py": "training/test_batch.py training/test_bootstrap.py training/algorithms/test_mask.py",
    "training/algorithms/bilevel_gae.py": "training/algorithms",
    "training/algorithms/losses.py": "training/algorithms training/update/test_learner.py",
    "training/algorithms/grpo.py": "training/algorithms",
    "training/update/learner.py": "training/update training/loop/test_stops_well.py",
    "training/checkpoints/checkpoint_state.py": "training/checkpoints training/loop/test_what_is_saved.py",
    "training/checkpoints/checkpoint_files.py": "training/checkpoints training/loop/test_best_policy.py",
    "benchmarks/models/measures/measures.py": "benchmarks/models/test_measures.py benchmarks/models/test_board.py",
}
"""The central files, and the tests that cover each."""

COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
COMPARISONS |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sum": "max"}
SLOW_LIBRARIES = ("numpy", "gymnasium", "hypothesis", "pytest", "scipy.stats", "torch", "transformers")
TIMEOUT_S = 600


@dataclass(frozen=True)
class Mutant:
    """One changed line."""

    file: str
    number: int
    line: str
    changed: str

    def applied(self, source: str) -> str | None:
        """Returns a file's text with the nearest matching line changed; None if no line matches."""
        lines = source.split("\n")
        places = [number for number, line in enumerate(lines, 1) if line == self.line]
        if not places:
            return None
        lines[min(places, key=lambda number: abs(number - self.number)) - 1] = self.changed
        return "\n".join(lines)


def changed_node(node: ast.AST) -> ast.AST | None:
    """Returns an expression that computes something else, or None if this one is left alone."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            new.ops = [COMPARISONS[type(operator)]()]
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
        case ast.BinOp() if type(new.op) in ARITHMETIC:
            new.op = ARITHMETIC[type(new.op)]()
        case ast.UnaryOp(op=ast.Not()):
            new = new.operand
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            new.func = ast.Name(CALLS[name])
        case ast.Constant(value=bool()):
            new.value = not new.value
        case ast.Constant(value=int() | float()):
            new.value += 1
        case _:
            return None
    return new


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """Yields a mutant of each expression on one line that decides what the program computes."""
    lines = source.split("\n")

    def walk(node: ast.AST, parent: ast.AST) -> Iterator[Mutant]:
        is_message = isinstance(node, ast.JoinedStr | ast.Assert | ast.Raise | ast.arg)
        if is_message or node in getattr(parent, "decorator_list", ()):
            return
        if isinstance(parent, ast.AnnAssign) and node is not parent.value:
            return
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return
        new = changed_node(node)
        if new is not None and node.lineno == node.end_lineno:
            line = lines[node.lineno - 1].encode()
            changed = line[: node.col_offset] + ast.unparse(new).encode() + line[node.end_col_offset :]
            yield Mutant(file, node.lineno, line.decode(), changed.decode())
        for child in ast.iter_child_nodes(node):
            yield from walk(child, node)

    tree = ast.parse(source)
    yield from walk(tree, tree)


def drawn(directory: Path, count: int) -> list[Mutant]:
    """Returns mutants of the central files in turn, in a random order that depends on the seed and the files alone."""
    generator = random.Random(SEED)
    decks = []
    for file in TESTS:
        deck = [*mutants_of(file, (directory / file).read_text(encoding="utf-8"))]
        generator.shuffle(deck)
        decks.append(deck)
    rounds = max(map(len, decks))
    return [deck[number] for number in range(rounds) for deck in decks if number < len(deck)][:count]


def exported(revision: str, directory: Path) -> Path:
    """Writes the files of a revision into a folder."""
    archive = subprocess.run(["git", "archive", revision], cwd=CHECKOUT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
    return directory


def outcome(directory: Path, file: str) -> str:
    """Returns whether the tests of a file fail, in a forked process."""
    tests = [UNIT + name for name in TESTS[file].split() if (directory / UNIT / name).exists()]
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1), os.dup2(quiet, 2)
        os.chdir(directory)
        os.environ["PYTHONPATH"] = str(directory)
        sys.path[:] = [str(directory), *(path for path in sys.path if path not in ("", str(CHECKOUT)))]
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        import pytest

        os._exit(pytest.main(["-x", "-q", "-m", "not soak", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timed out"


def main() -> int:
    """Runs the mutants and prints one line for each, and the number that survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--revision", default="HEAD")
    parser.add_argument("--like", help="draw the mutants from this revision (default: the one that is tested)")
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of mutants to run")
    parser.add_argument("--control", action="store_true", help="first check that the tests pass on unchanged files")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.dont_write_bytecode = False
    with tempfile.TemporaryDirectory() as folder:
        tree = exported(options.revision, Path(folder, "tree"))
        drawn_from = exported(options.like, Path(folder, "like")) if options.like else tree
        mutants = [*enumerate(drawn(drawn_from, options.count), 1)]
        for library in SLOW_LIBRARIES:
            __import__(library)
        if options.control and (broken := [file for file in TESTS if outcome(tree, file) != "survived"]):
            print(f"The tests of these files fail without any change: {', '.join(broken)}")
            return 1
        counts: dict[str, int] = {}
        for moment, (number, mutant) in enumerate(mutants):
            if options.only and number not in options.only:
                continue
            path = tree / mutant.file
            source = path.read_text(encoding="utf-8") if path.exists() else ""
            text, begun = mutant.applied(source), time.monotonic()
            result = "gone"
            if text is not None:
                path.write_text(text, encoding="utf-8")
                os.utime(path, (2e9 + moment, 2e9 + moment))  # no cached bytecode of another mutant is taken for it
                result = outcome(tree, mutant.file)
                path.write_text(source, encoding="utf-8")
                os.utime(path, (1e9, 1e9))
            counts[result] = counts.get(result, 0) + 1
            change = f"{mutant.line.strip()}  ->  {mutant.changed.strip()}"
            took = time.monotonic() - begun
            print(f"{number:3} {result:9} {took:4.0f} s  {mutant.file}:{mutant.number}: {change}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
