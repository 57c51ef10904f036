"""Help and lists take at most three times the CPU time of `import gymnasium`."""

import resource
import statistics
import subprocess
import sys

import pytest

BASELINE = ("-c", "import gymnasium")
COMMANDS = (
    ("-m", "vlm_envs", "--help"),
    ("-m", "vlm_envs", "list"),
    ("-m", "training", "--help"),
    ("-m", "training", "list"),
    ("-m", "agents", "--help"),
    ("-m", "agents", "list"),
    ("-m", "judges", "--help"),
    ("-m", "benchmarks", "--help"),
)
NUM_ROUNDS = 5


def cpu_seconds(arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.fixture(scope="module")
def taken():
    """CPU seconds by command, all of them in turn after one round that fills caches."""
    rounds = [{command: cpu_seconds(command) for command in (BASELINE, *COMMANDS)} for _ in range(NUM_ROUNDS + 1)]
    return {command: [each[command] for each in rounds[1:]] for command in rounds[0]}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_and_lists_are_fast(command, taken):
    ratio = statistics.median(taken[command]) / statistics.median(taken[BASELINE])
    print(f"{' '.join(command[1:])}: {statistics.median(taken[command]):.3f} s ({min(taken[command]):.3f} to "
          f"{max(taken[command]):.3f}), {ratio:.2f} times import gymnasium")  # fmt: skip
    assert ratio <= 3
