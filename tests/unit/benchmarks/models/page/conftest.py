"""One small real board, opened in the system's Chromium."""

from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.page.board_page import build_page
from benchmarks.models.play.contestants import Contestant, contestants
from benchmarks.models.play.playing import BoardRun, RunPlan
from tests.unit.benchmarks.models.page.made import MODEL, QUESTIONS, WORLDS, Flawed, questioned
from tests.unit.benchmarks.models.short_search import shorten_search


@pytest.fixture(scope="session")
def board(tmp_path_factory):
    """The folder of a board: random, lazy, oracle and a flawed model, four levels of two worlds."""
    directory = tmp_path_factory.mktemp("boards") / "small"
    model = Contestant(label=MODEL, identity={"name": MODEL}, agent=Flawed())
    plan = RunPlan(worlds=[WorldSpec.parse(world) for world in WORLDS], episodes=4)
    run = BoardRun(plan, [*contestants([]), model], directory)
    with pytest.MonkeyPatch.context() as monkeypatch:
        shorten_search(monkeypatch)
        run.run()
    run.board.close()
    assert main(["replay", str(directory)]) == 0  # Which marks rows, and writes the page
    return directory


@pytest.fixture(scope="session")
def question_board(tmp_path_factory):
    """The folder of a board of questions about images: an agent that zooms, and one that answers at random."""
    directory = tmp_path_factory.mktemp("boards") / "questions"
    plan = RunPlan(worlds=[WorldSpec.parse(QUESTIONS)], episodes=2)
    agents = [Contestant(label=name, identity={"name": name}, agent=agent) for name, agent in questioned().items()]
    run = BoardRun(plan, agents, directory)
    run.run()
    run.board.close()
    build_page(directory)
    return directory


@pytest.fixture
def opened(board, chromium):
    """Opens the page, `opened(address="", path=…, **context)`; at the end nothing may have been asked for or failed."""
    contexts, troubles = [], []

    def open_page(address="", path=None, **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        url = f"file://{path or board / 'index.html'}"
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        ours = ("data:", f"file://{Path(path or board / 'index.html').parent}/")
        page.on("request", lambda asked: asked.url.startswith(ours) or troubles.append(asked.url))
        page.goto(url + address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []
