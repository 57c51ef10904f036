"""The repository itself: what is installed, what is promised, what a newcomer reads."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import vlm_envs

CHECKOUT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
TEXT_SUFFIXES = {".py", ".md", ".toml", ".yml", ".yaml", ".txt", ".cfg", ".jinja"}


def tracked_texts() -> list[Path]:
    """Returns the text files of the checkout, those git ignores left out."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
    )
    if listing.returncode != 0:
        pytest.skip("git cannot list the files of this folder: it is no checkout, or there is no git")
    paths = [CHECKOUT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.suffix in TEXT_SUFFIXES and path.is_file()]


def make_targets() -> dict[str, str]:
    """Returns the Makefile's targets with their help, as `make` prints them."""
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z-]+):.*?## (.+)$", makefile, flags=re.MULTILINE))


@pytest.mark.parametrize("package", ["tests", "examples", "agents", "judges", "training", "benchmarks", "docs"])
def test_only_vlm_envs_can_be_imported_from_elsewhere(package, tmp_path):
    if "vlm-envs" not in {distribution.name for distribution in metadata.distributions()}:
        pytest.skip("vlm-envs is not installed here; `make test` installs it")
    # Found by another folder's Python, so only what the installation exposes counts.
    program = f"import importlib.util, vlm_envs; print(importlib.util.find_spec({package!r}))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=280, check=True
    )
    # Others install packages of these names too, pysbd for one; ours is the one that lies in the checkout itself.
    assert str(CHECKOUT / package) not in result.stdout


def test_the_wheel_holds_one_package():
    assert PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["vlm_envs"]
    assert PYPROJECT["tool"]["hatch"]["build"]["dev-mode-exact"] is True


def test_the_package_says_it_is_typed():
    assert (CHECKOUT / "vlm_envs" / "py.typed").is_file()


def test_the_core_needs_only_four_distributions():
    names = {re.split(r"[^a-z]", requirement)[0] for requirement in PYPROJECT["project"]["dependencies"]}
    assert names == {"gymnasium", "numpy", "pillow", "tyro"}


def test_every_direct_requirement_has_a_tested_version():
    lines = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    pinned = {line.partition("==")[0].replace("_", "-") for line in lines if "==" in line}
    extras = PYPROJECT["project"]["optional-dependencies"].values()
    requirements = [*PYPROJECT["project"]["dependencies"], *(item for extra in extras for item in extra)]
    names = {re.split(r"[<>=\[]", requirement)[0].lower().replace("_", "-") for requirement in requirements}
    names -= {"vlm-envs"}
    assert names - pinned == set()


def test_the_changelog_has_this_version():
    changelog = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {vlm_envs.__version__}" in changelog


def test_make_alone_lists_every_target():
    listing = subprocess.run(["make"], capture_output=True, text=True, cwd=CHECKOUT, timeout=280, check=True).stdout
    targets = make_targets()
    assert {"train", "test", "lint", "format", "docs", "speed", "play", "clean"} <= set(targets)
    for target, help_text in targets.items():
        assert re.search(rf"^\s*make {target}\s+{re.escape(help_text)}$", listing, flags=re.MULTILINE)


def test_continuous_integration_runs_what_developers_run():
    script = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line for line in script.splitlines() if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["exec make test"]


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/quickstart.md"])
def test_documents_name_only_make_targets_that_exist(document):
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)|^make ([a-z-]+)", text, flags=re.MULTILINE))
    assert {first or second for first, second in named} <= set(make_targets())


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_links_between_documents_lead_somewhere(document):
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    local = [target for target in targets if target and "://" not in target]
    assert [target for target in local if not (CHECKOUT / target).exists()] == []


def test_nothing_names_a_folder_of_one_machine():
    # Written in pieces, so that this file does not find itself.
    folders = re.compile("|".join((r"/ro" + r"ot/", r"/ho" + r"me/[a-z]", r"/Us" + r"ers/[a-z]", r"/wo" + r"rk/")))
    found = [
        f"{path.relative_to(CHECKOUT)}:{number}"
        for path in tracked_texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if folders.search(line)
    ]
    assert found == []


def test_nothing_is_left_to_be_done():
    marker = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
    found = [
        str(path.relative_to(CHECKOUT)) for path in tracked_texts() if marker.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_no_result_that_is_kept_names_a_folder_of_one_machine():
    """Results record the command that made them, with its folders as they were given."""
    folders = re.compile(r"(?<![\w.~])/(?:tm" + r"p|ro" + r"ot|ho" + r"me|wo" + r"rk|Us" + r'ers)/[^ "]*')
    kept = [path for folder in ("docs", "training") for path in (CHECKOUT / folder).rglob("*.json")]
    found = [(str(path.relative_to(CHECKOUT)), folders.findall(path.read_text(encoding="utf-8"))) for path in kept]
    assert len(kept) > 40
    assert [(path, names) for path, names in found if names] == []


def test_the_citation_is_of_this_version():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML: pip install '.[dev]'")
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == vlm_envs.__version__
    assert citation["license"] == PYPROJECT["project"]["license"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PYPROJECT["project"]["authors"]
    ]


def test_the_page_for_coding_agents_is_short_and_names_what_there_is():
    page = (CHECKOUT / "AGENTS.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 300
    targets = re.findall(r"^make ([a-z-]+)", page, flags=re.MULTILINE)
    assert targets and not {*targets} - {*make_targets()}
    paths = [name for name in re.findall(r"`([\w./-]+)`", page) if "/" in name]
    assert paths and [name for name in paths if not (CHECKOUT / name).exists()] == []


def test_the_installed_command_is_the_command_line():
    assert PYPROJECT["project"]["scripts"] == {"vlm-envs": "vlm_envs.cli.commands:main"}


def test_no_image_or_page_of_a_board_is_committed():
    listed = subprocess.run(["git", "ls-files", "docs/boards"], cwd=CHECKOUT, capture_output=True, text=True)
    assert {Path(name).name for name in listed.stdout.split()} <= {"board.json", "episodes.jsonl", "verified.json"}
