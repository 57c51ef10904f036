import queue
import threading
from contextlib import closing
from functools import partial

import pytest

import agents.human
from agents.registry import make_agent
from agents.rollout import rollout
from vlm_envs.cli.player_page import PlayerPage
from vlm_envs.errors import ConfigError
from vlm_envs.vector.make_vec import world_vector

ASKED_OR_OVER = """() => /^Played/.test(document.getElementById("state").textContent) ? "over"
    : !document.getElementById("answer").disabled && document.images[0].complete && "asked" """


@pytest.fixture
def played(monkeypatch):
    """Plays FrozenLake in a window on another thread; gives its address and the episodes."""
    opened, episodes = queue.Queue(), queue.Queue()
    monkeypatch.setattr(agents.human, "PlayerPage", partial(PlayerPage, open_url=opened.put))

    def play():
        agent = make_agent("human", window=True)
        with closing(agent), closing(world_vector("VLM/FrozenLake-v0", max_turns=3)) as worlds:
            episodes.put(rollout(agent, worlds, seeds=[3], env_ids=["VLM/FrozenLake-v0"])[0])

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    yield opened.get(timeout=30), episodes
    thread.join(timeout=30)


def test_a_person_plays_an_episode_in_a_browser(chromium, played):
    url, episodes = played
    page = chromium.new_page(viewport={"width": 375, "height": 700})
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    page.set_default_timeout(60_000)
    while page.wait_for_function(ASKED_OR_OVER).json_value() == "asked":
        width, height = page.evaluate("(i => [i.naturalWidth, i.naturalHeight])(document.querySelector('img'))")
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        page.get_by_label("Your answer").fill("Up")
        page.get_by_label("Your answer").press("Enter")
    episode = episodes.get(timeout=30)
    assert episode.turns[0].observation["image"].shape[:2] == (height, width)
    assert all("Up" in turn.response_text and not turn.info.get("parse_error") for turn in episode.turns)
    assert all(address.startswith((url, "data:")) for address in asked)


def test_a_window_is_asked_for_by_yes_or_no():
    with pytest.raises(ConfigError, match="window"):
        make_agent("human", window="terminal")


def test_a_person_calls_tools_and_answers_questions(monkeypatch, capsys):
    pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")
    typed = iter(["image_zoom_in_tool image=original_image bbox_2d=[400, 400, 600, 600]", "B"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    kwargs = {"prompt_format": "arm", "side_px": 600, "target_px": (20, 40), "settings": "street"}
    with closing(world_vector("VLM/ZoomQA-v0", **kwargs)) as worlds:
        (episode,) = rollout(make_agent("human"), worlds, seeds=[0], env_ids=["VLM/ZoomQA-v0"])
    call, answer = (turn.response_text for turn in episode.turns)
    assert call.startswith('<think></think><tool_call>{"name": "image_zoom_in_tool"') and "[400, 400, 600, 600]" in call
    assert answer == "<think></think><answer>B</answer>"
