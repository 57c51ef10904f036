"""`make test-adapters`: adapts environments of other packages, each package in a fresh virtual environment of its own.

One package, or other versions: python -m tests.adapters minigrid 'gymnasium==1.1.1'
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PACKAGES = (
    "minigrid",
    "gymnasium[toy-text]",
    "gymnasium[classic-control]",
    "ale-py",
    "miniworld",
    "gymnasium[mujoco]",
)


def test(package: str, *versions: str) -> bool:
    """Returns whether the tests of a package pass in a fresh virtual environment; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="adapters-") as folder:
        python = Path(folder) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-cache-dir"]
        subprocess.run([*install, str(CHECKOUT), package, *versions, "pytest", "pytest-timeout"], check=True)
        environ = {**os.environ, "ADAPTED_PACKAGE": package, "PYTHONPATH": ""}
        command = [python, "-m", "pytest", "tests/adapters", "--noconftest", "-p", "no:cacheprovider", "-q", "-s"]
        command += ["--timeout", "1800", "--session-timeout", "7200"]  # MuJoCo draws ten images per second
        return subprocess.run(command, cwd=CHECKOUT, env=environ, check=False).returncode == 0


def main(words: list[str]) -> int:
    """Tests the named packages, or all; returns 1 if one fails. Versions are installed with each package."""
    versions = [word for word in words if any(sign in word for sign in "=<>")]
    packages = [word for word in words if word not in versions] or [*PACKAGES]
    failed = [package for package in packages if not test(package, *versions)]
    print(f"{len(packages) - len(failed)} of {len(packages)} packages pass{': not ' * bool(failed)}{', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
