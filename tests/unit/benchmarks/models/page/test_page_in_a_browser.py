"""The page of a board as its readers meet it, in Chromium."""

import json
import re
import shlex
import shutil

import pytest
import tyro

from benchmarks.models.board.board import Board
from benchmarks.models.page.board_page import build_page
from tests.unit.benchmarks.models.page.made import HOSTILE, LAKE, MODEL, QUESTIONS, SOKOBAN, of
from vlm_envs.cli.named_worlds import parse_settings
from vlm_envs.cli.play import PlayOptions, session_of
from vlm_envs.splits import level_name

PHONE = {"viewport": {"width": 375, "height": 812}, "is_mobile": True, "has_touch": True}


def records(board, agent, world=LAKE):
    episodes = [each for each in Board(board).episodes() if (each["agent"], each["world"]) == (agent, world)]
    return sorted(episodes, key=lambda each: each["seed"])


def levels_shown(page):
    return page.locator("#map .line.here .level").count()


def filters(page):
    buttons = page.locator("#controls .choice").first.locator("button")
    return {each.get_attribute("data-value"): int(each.locator("small").inner_text()) for each in buttons.all()}


def test_the_table_has_a_row_for_each_agent_and_what_is_unknown_is_empty(opened, board):
    page = opened()
    rows = page.locator("#world-0 .sortable tbody tr")
    assert rows.count() == 4
    assert page.locator("#overview tbody tr").count() == 4
    assert page.locator("#overall tbody tr").count() == 4
    cell = {
        agent: page.locator("#world-0 .sortable tr", has_text=agent).locator("[data-name=USD]").inner_text()
        for agent in ("oracle", MODEL)
    }
    assert cell["oracle"] == "" and float(cell[MODEL]) > 0
    num_errors = sum(bool(each["error"]) for each in records(board, MODEL))
    errors = page.locator("#world-0 .sortable tr", has_text=MODEL).locator("[data-name=errors]")
    assert int(errors.inner_text()) == num_errors


def test_an_image_that_is_missing_names_the_command_that_draws_it(opened):
    assert "python -m benchmarks replay" in opened().evaluate("missingImage().textContent")


def test_rows_that_were_replayed_are_marked_until_something_changes(opened, board, tmp_path):
    page = opened()
    assert page.locator(".sortable .verified").count() == 8
    assert "8 of 8 rows verified" in page.locator(".facts").inner_text()
    shutil.copytree(board, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "episodes.jsonl"
    lines = path.read_text(encoding="ascii").splitlines()
    place = next(index for index, line in enumerate(lines) if '"agent":"oracle"' in line)
    lines[place] = re.sub(r'"total_reward":[^,]+', '"total_reward":99.0', lines[place])
    path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    changed = opened(path=build_page(tmp_path))
    assert changed.locator(".sortable .verified").count() == 7
    assert "7 of 8 rows verified" in changed.locator(".facts").inner_text()


def test_a_heading_sorts_and_sorts_back_with_the_unknown_last(opened):
    page = opened()
    table = page.locator("#world-0 .sortable")

    def column(name):
        return [each.get_attribute("data-value") for each in table.locator(f"td[data-name='{name}']").all()]

    heading = table.locator("th", has_text="reward")
    heading.locator("button").click()
    assert column("reward") == sorted(column("reward"), key=float, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"
    heading.locator("button").click()
    assert column("reward") == sorted(column("reward"), key=float)
    table.locator("th button", has_text="seconds").click()
    seconds = column("seconds")
    assert seconds[0] != "" and seconds[1:] == [""] * 3


def test_a_cell_of_the_pairs_tells_its_numbers_and_leads_to_its_levels(opened, board):
    page = opened()
    cell = page.locator("#world-0 .pair[data-row=oracle][data-column=random]")
    cell.click()
    details = page.locator("#world-0 .details")
    won = sum(not each["success"] for each in records(board, "random"))
    assert f"oracle alone solved {won}, random alone 0" in details.inner_text()
    details.locator("a").click()
    assert levels_shown(page) == won
    assert page.locator("#map .line.here .level.solved").count() == won


def test_filters_keep_what_they_say(opened, board):
    played = records(board, MODEL)
    page = opened(of(MODEL))
    expected = {
        "all": 4,
        "solved": sum(each["success"] and not each["error"] for each in played),
        "failed": sum(not each["success"] and not each["error"] for each in played),
        "unread": sum(any(turn["parse_error"] for turn in each["turns"]) for each in played),
        "errors": sum(bool(each["error"]) for each in played),
    }
    assert filters(page) == {name: n for name, n in expected.items() if n or name in ("all", "solved", "failed")}
    assert expected["errors"] and expected["unread"]
    for name in filters(page):
        page.locator(f"#controls [data-value={name}]").click()
        assert levels_shown(page) == expected[name]
    page.locator("#controls [data-value=all]").click()
    page.locator("#search").fill(str(played[2]["seed"]))
    page.wait_for_function("document.querySelectorAll('#map .line.here .level').length === 1")


def test_an_ending_leads_to_the_episodes_that_ended_so(opened):
    page = opened()
    ending = page.locator("#world-0 .endings dd").nth(3).locator(".ending[data-kind]:not([data-kind=solved])").first
    number, kind = int(ending.get_attribute("aria-label").split(": ")[1].split()[0]), ending.get_attribute("data-kind")
    ending.click()
    page.wait_for_function(f"document.querySelectorAll('#map .line.here .level').length === {number}")
    assert kind in page.locator("#stage .mistake").inner_text()


def test_the_keyboard_goes_through_levels_and_agents_searches_and_helps(opened):
    page = opened(of("oracle"))

    def place():
        return page.locator("#position").inner_text(), page.locator("#stage h4").inner_text()

    assert place() == ("Level 1 of 4", "oracle")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("j")
    assert place() == ("Level 3 of 4", "oracle")
    page.keyboard.press("k")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert place() == ("Level 1 of 4", "oracle")
    page.keyboard.press("j")
    page.keyboard.press("a")
    assert place()[0] == "Level 2 of 4" and place()[1] != "oracle"
    page.keyboard.press("/")
    page.keyboard.type("jaj")
    assert page.locator("#search").input_value() == "jaj"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def test_an_address_leads_back_to_an_episode_and_its_rival(opened):
    page = opened(of("oracle"))
    page.keyboard.press("j")
    page.locator("#pickers select").last.select_option("random")
    page.locator("#controls [data-value=gained]").click()
    shown = [each.inner_text() for each in page.locator("#stage h4").all()]
    assert shown == ["oracle", "random"]
    again = opened(page.evaluate("location.hash"))
    assert [each.inner_text() for each in again.locator("#stage h4").all()] == shown
    assert again.locator("#position").inner_text() == page.locator("#position").inner_text()


def test_a_turn_shows_prompt_thoughts_response_reward_regret_and_usage(opened, board):
    [first, *_] = [each for each in records(board, MODEL, SOKOBAN) if not each["error"]]
    page = opened(of(MODEL, SOKOBAN, episode=f"{first['seed']}/0"))
    assert level_name(first["seed"]).startswith("test level ")
    assert f"{level_name(first['seed'])}, " in page.locator("#stage header").first.inner_text()
    turn = page.locator("#stage .turn").first
    told = turn.inner_text()
    assert "Sokoban" in told and "thoughts" in told and "reward" in told
    assert turn.locator(".measures .chip", has_text="prompt tokens").locator("b").inner_text() == "800"
    terms = {term["name"].replace("_", " "): term["source"] for term in first["turns"][0]["reward_terms"]}
    rows = turn.locator(".terms tbody tr").all()
    assert {row.locator("td").nth(0).inner_text(): row.locator("td").nth(1).inner_text() for row in rows} == terms
    assert turn.locator(".terms tfoot tr").count() == 1, "without a judge the environment's reward is the total"
    assert turn.locator(".terms", has_text="tokens").count() == 0, "rewards stand apart from other numbers"
    acted = first["turns"][0]["actions"] and first["turns"][0]["optimal_actions_left"] is not None
    assert turn.locator(".regret").count() == bool(acted)
    assert turn.locator("img").evaluate("image => image.naturalWidth") > 0


def test_hostile_text_is_inert_and_long_thoughts_are_cut(opened, board):
    [episode, *_] = [
        each for each in records(board, MODEL) if any(turn["response"] == HOSTILE for turn in each["turns"])
    ]
    page = opened(of(MODEL, episode=f"{episode['seed']}/0"))
    assert page.locator("#stage img:not([src^='images/'])").count() == 0
    assert page.locator("#stage .raw-response .said").first.inner_text().startswith("</script><img src=x")
    thoughts = page.locator("#stage .thoughts .said").first.text_content()
    assert thoughts.startswith("</script>") and len(thoughts) < 20_000 and "more characters" in thoughts


def test_hostile_names_are_inert(opened, board, tmp_path):
    for name in ("board.json", "episodes.jsonl"):
        text = (board / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace('"random"', json.dumps(HOSTILE)), encoding="utf-8")
    shutil.copytree(board / "images", tmp_path / "images")
    page = opened(path=build_page(tmp_path))
    named = page.locator("#world-0 .sortable td.label", has_text="</script>")
    assert named.count() == 1
    page.locator("#pickers select").nth(1).select_option(index=1)
    assert page.locator("#stage h4").inner_text().startswith("</script><img")
    assert page.locator("img[src='x']").count() == 0


def test_images_that_are_lost_are_reported(opened, board, tmp_path):
    for name in ("board.json", "episodes.jsonl"):
        (tmp_path / name).write_bytes((board / name).read_bytes())
    path = build_page(tmp_path, single_file=True)
    page = opened(of("oracle"), path=path)
    assert page.locator("#stage .missing").count() == page.locator("#stage .turn").count()


def test_search_and_stop_reasons_reach_every_episode_in_every_file(opened, board, tmp_path, monkeypatch):
    shutil.copytree(board, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr("benchmarks.models.page.page_episodes.EPISODES_PER_FILE", 2)
    monkeypatch.setattr("benchmarks.models.page.board_page.EPISODES_PER_FILE", 2)
    page = opened(of(MODEL), path=build_page(tmp_path))
    page.locator("#search").fill("onerror=")
    hits = sum(any(HOSTILE in turn["response"] for turn in each["turns"]) for each in records(board, MODEL))
    assert 0 < hits < 4
    page.wait_for_function(f"document.querySelectorAll('#map .line.here .level').length === {hits}")
    page.locator("#search").fill("")
    stopped = page.get_by_label("Stop reason")
    stopped.select_option("error")
    assert levels_shown(page) == 1
    assert "stop=error" in page.evaluate("location.hash")
    stopped.select_option("")
    page.locator("#pickers").get_by_label("Sort by").select_option("turns")
    turns = page.evaluate("browsing.chosen().map((episode) => episode.num_turns)")
    assert turns == sorted(turns, reverse=True) and len(turns) == 4


def test_a_lost_file_of_episodes_is_reported(board, tmp_path, chromium):
    shutil.copytree(board, tmp_path, dirs_exist_ok=True)
    path = build_page(tmp_path)
    shutil.rmtree(tmp_path / "episodes")
    page = chromium.new_page()
    page.goto(f"file://{path}{of('oracle')}")
    assert "episodes/0000.js is missing" in page.locator("#stage .error").inner_text()
    page.close()


def test_a_question_is_the_headline_with_both_answers(opened, question_board):
    page = opened(of("guesser", QUESTIONS), path=question_board / "index.html")
    [episode, *_] = records(question_board, "guesser", QUESTIONS)
    state = episode["turns"][0]["state"]
    assert page.locator("#stage .asked").inner_text() == state["question"]
    answers = page.locator("#stage .answers").inner_text()
    assert "answered no such answer" in answers and f"correct {state['answers'][0]}".lower() in answers.lower()
    assert "to go" not in page.locator("#stage").inner_text()
    assert "wrong answer" in page.locator("#stage .mistake").inner_text()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keyboard_alone_opens_a_question_and_enlarges_its_image(opened, question_board, width, scheme):
    page = opened(path=question_board / "index.html", viewport={"width": width, "height": 844}, color_scheme=scheme)
    page.locator("#world-0 .sortable td.label a", has_text="zoomer").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('#stage .turn').length > 1")
    assert page.locator("#stage h4").inner_text() == "compatible:zoomer@http://127.0.0.1:8799/v1"
    assert "Zoomed into [" in page.locator("#stage .call").first.inner_text()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('#position').textContent.startsWith('Level 2')")
    page.locator("#stage .enlarge").first.focus()
    first = page.locator("#stage .image").first
    assert first.locator("rect.said-mark").count() >= 1
    page.keyboard.press("Enter")
    enlarged = page.locator("dialog.enlarged")
    assert enlarged.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") > 300
    assert enlarged.evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth + 1")
    page.keyboard.press("Escape")
    enlarged.wait_for(state="detached")
    assert page.evaluate("document.activeElement.className") == "enlarge"
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_nothing_beyond_its_edge_in_light_and_dark(opened, scheme):
    page = opened(of(MODEL, SOKOBAN), **PHONE, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(red, green, blue) < 60) == (scheme == "dark")
    page.locator("select").first.select_option("1")
    assert page.evaluate("document.documentElement.scrollWidth") == 375, "beside another agent's episode too"


def test_an_episode_names_the_command_that_plays_its_level(opened, board):
    page = opened(of("oracle", SOKOBAN))
    command = page.locator("#stage .command code").inner_text()
    options = tyro.cli(PlayOptions, args=shlex.split(command)[2:])
    session = session_of(options.env_id, seed=options.seed, **parse_settings(options.settings))
    [first, *_] = records(board, "oracle", SOKOBAN)
    assert (options.seed, session.info["state_hash"]) == (first["seed"], first["start_state_hash"])


def test_a_phone_breaks_a_name_that_is_an_address(opened, board, tmp_path):
    label = "compatible:toy@http://127.0.0.1:18200/v1"
    world = f"{LAKE}:prompt_format=grounding_worldmodeling,{'x' * 40}=1"
    for name in ("board.json", "episodes.jsonl"):
        text = re.sub(f'"(label|world)":( ?)"{LAKE}"', rf'"\1":\2"{world}"', (board / name).read_text(encoding="utf-8"))
        (tmp_path / name).write_text(text.replace('"random"', json.dumps(label)), encoding="utf-8")
    shutil.copytree(board / "images", tmp_path / "images")
    page = opened(of(label, world), path=build_page(tmp_path), **PHONE)
    assert page.locator("#stage h4").inner_text() == label
    assert page.evaluate("document.documentElement.scrollWidth") == 375


BREAKS_IN_WORDS = """() => {
  const found = [], isWord = (character) => /\\w/.test(character);
  for (const element of document.querySelectorAll(".settings, .episode > header .note")) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), range = document.createRange();
    for (let node; (node = walker.nextNode()); ) {
      let before = null;
      for (let at = 0; at < node.data.length; at++) {
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        const top = range.getBoundingClientRect().top;
        const isBroken = before !== null && top > before + 3 && isWord(node.data[at]) && isWord(node.data[at - 1]);
        if (isBroken && node.data[at - 1] !== "_") found.push(node.data);
        before = top;
      }
    }
  }
  return found;
}"""


@pytest.mark.parametrize("width", [375, 1280])
def test_long_names_of_worlds_break_between_their_words(width, opened, board, tmp_path):
    settings = (
        "format_reward=0.25,max_turns=4,prompt_format=grounding_worldmodeling,representation=natural_language,"
        "system_prompt=True"
    )
    world = f"{LAKE}:{settings}"
    for name in ("board.json", "episodes.jsonl"):
        text = (board / name).read_text(encoding="utf-8")
        text = re.sub(f'"(label|world)":( ?)"{LAKE}"', rf'"\1":\2"{world}"', text)
        (tmp_path / name).write_text(text, encoding="utf-8")
    shutil.copytree(board / "images", tmp_path / "images")
    page = opened(of("random", world), path=build_page(tmp_path), viewport={"width": width, "height": 900})
    assert settings in page.locator(".episode > header .note").inner_text()
    assert page.evaluate(BREAKS_IN_WORDS) == []


def test_every_control_has_a_name(opened):
    page = opened(of(MODEL))
    nameless = """[...document.querySelectorAll("button, select, input, a, svg, [role=img]")]
        .filter((each) => !each.ariaHidden && !each.ariaLabel && !each.textContent.trim() && !each.closest("label"))
        .map((each) => each.outerHTML)"""
    assert page.evaluate(nameless) == []


def test_print_leaves_out_what_cannot_be_used_on_paper(opened):
    page = opened()
    page.emulate_media(media="print")
    assert page.locator("#overview").is_visible() and not page.locator("#episodes").is_visible()


def test_a_large_board_is_there_within_two_seconds(opened, board, tmp_path):
    agents, worlds = [f"agent {i}" for i in range(5)], [f"World{i}" for i in range(8)]
    html = (board / "index.html").read_text(encoding="utf-8")
    before, rest = html.split('<script type="application/json" id="payload">')
    text, after = rest.split("</script>", 1)
    payload = json.loads(text)
    outline = payload["labels"][0]["episodes"][0]
    episodes = [{**outline, "place": seed, "seed": seed, "success": seed % 3 == 0} for seed in range(256)]
    payload["labels"] = [
        {**payload["labels"][0], "label": f"{agent} · {world}", "agent": agent, "world": world, "episodes": episodes}
        for world in worlds
        for agent in agents
    ]
    payload["files"] = [{"episodes": [None] * 64, "texts": []}] * 4
    part = before[before.index('<section class="world-part" id="world-0">') : before.index('<section id="episodes">')]
    text = json.dumps(payload).replace("<", "\\u003c")
    path = tmp_path / "large.html"
    script = f'<script type="application/json" id="payload">{text}</script>'
    path.write_text(before.replace(part, part * 4) + script + after, encoding="utf-8")
    page = opened(path=path)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # Of its processor: others may be at work here
    page.reload()
    assert levels_shown(page) == 256
    page.keyboard.press("ArrowRight")
    assert page.locator("#position").inner_text() == "Level 2 of 256"
    seconds = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    assert 0.01 < seconds["TaskDuration"] < 2
