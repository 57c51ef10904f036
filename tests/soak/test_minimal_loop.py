"""The loop to read learns as much in a few minutes as its text promises."""

import subprocess
import sys
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

CHECKOUT = Path(__file__).parents[2]
MAX_CPU_S = 360.0


def test_it_gains_a_tenth_of_validation_success_within_six_cpu_minutes():
    code = (
        "from examples.minimal_loop import Config, train; before, after = train(Config()); assert after >= before + 0.1"
    )
    started, started_s = getrusage(RUSAGE_CHILDREN), time.monotonic()
    result = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    ended = getrusage(RUSAGE_CHILDREN)
    assert result.returncode == 0, result.stdout + result.stderr
    cpu_s = ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime
    print(f"{result.stdout}{cpu_s:.0f} CPU s, {time.monotonic() - started_s:.0f} s")
    assert cpu_s < MAX_CPU_S
