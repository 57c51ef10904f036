import json
import math
import re
from dataclasses import replace

import pytest

from agents.oracle import OracleAgent
from vlm_envs.records.json_lines import MissingRunDataError
from vlm_envs.records.report_mistakes import compare, mark_differences
from vlm_envs.records.report_page import build_report, csp_hash
from vlm_envs.records.report_panels import (
    comparisons,
    find,
    panel_groups,
    sentence,
    wall_time_s,
    written_p,
    written_time,
)
from vlm_envs.records.run_data import RunReader, RunWriter, TurnNotes, start_of, training_label
from vlm_envs.registration import make
from vlm_envs.statistics.success_rates import evaluated_rate, wilson_interval
from vlm_envs.trajectory import PaidTerm, Trajectory, Turn, world_terms

ENV_ID = "VLM/FrozenLake-v0"
HOSTILE = '</script><img src=x onerror="alert(1)"><!-- &amp; \ud800 \u2028'


def play(seed, *, mistake_rate=0.0, rewrite=str, reading="strict"):
    """One real episode, with the oracle's responses rewritten."""
    world = make(ENV_ID, representation="structured", split="test", reading=reading).unwrapped
    agent = OracleAgent(mistake_rate=mistake_rate, seed=seed)
    observation, info = world.reset(seed=seed, options={"optimal_actions": True})
    start_hash, turns, over = info["state_hash"], [], False
    while not over:
        response, before, seen = rewrite(agent.write(world)), info, observation
        observation, reward, terminated, truncated, info = world.step(response)
        over = terminated or truncated
        turns.append(
            Turn(
                observation=seen,
                response_text=response,
                stop_reason="stop",
                reward=reward,
                reward_terms=world_terms(info["reward_terms"]),
                terminated=terminated,
                truncated=truncated,
                info=info,
                state=before["state"],
                state_text=before["state_text"],
                optimal_actions_left=before.get("optimal_actions_left"),
            )
        )
    return Trajectory(
        env_id=ENV_ID,
        seed=seed,
        turns=tuple(turns),
        final_observation=observation,
        start_state_hash=start_hash,
    )


def write_evaluation(writer, label, iteration, episodes, **more):
    num_successes = sum(each.success for each in episodes)
    judge_terms = tuple(
        PaidTerm(name=name, value=value, source="judge:exact", weight=0.5)
        for name, value in {"grounding": 0.5, "worldmodeling": math.nan}.items()
    )
    notes = [[TurnNotes(judge_terms=judge_terms) for _ in each.turns] for each in episodes]
    writer.trajectories(label, episodes, notes)
    writer.evaluation(
        {
            "label": label,
            "iteration": iteration,
            "env_id": ENV_ID,
            "split": "test",
            "num_episodes": len(episodes),
            "num_successes": num_successes,
            "success": num_successes / max(1, len(episodes)),
            **more,
        }
    )


def write_run(directory, *, num_episodes=4, num_iterations=5):
    writer = RunWriter(directory)
    writer.config({"name": directory.name, "git_commit": "0123456789abcdef", "model": None})
    for iteration in range(num_iterations):
        writer.metrics(
            {"iteration": iteration, "phase": "rl", "success": 0.1 * iteration, "kl": 0.01, "elapsed_s": 9.0}
        )
    before = [play(seed, mistake_rate=0.9) for seed in range(num_episodes)]
    write_evaluation(writer, "before", 0, before)
    write_evaluation(writer, "after", num_iterations, [play(seed) for seed in range(num_episodes)])
    return writer


def payload(html):
    text = re.search(r'<script type="application/json" id="payload">(.*?)</script>', html, re.DOTALL).group(1)
    return json.loads(text)


def test_the_report_is_one_file_that_asks_for_nothing_else(tmp_path):
    write_run(tmp_path)
    path = build_report(tmp_path)
    html = path.read_text(encoding="utf-8")
    assert path == tmp_path / "report.html"
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", html)
    addresses = html.replace("http://www.w3.org/2000/svg", "")  # names a namespace
    assert "http://" not in addresses and "https://" not in addresses and "@import" not in html
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 1
    assert csp_hash(scripts[0]) in html.split("</head>")[0]


@pytest.mark.parametrize(
    ("split", "levels"),
    [("val", "held-out val levels"), ("test", "held-out test levels"), ("train", "training levels"), (None, "levels")],
)
def test_levels_are_held_out_only_where_their_split_says_so(tmp_path, split, levels):
    writer = RunWriter(tmp_path)
    writer.config({"name": "mine"})
    write_evaluation(writer, "after", 0, [play(0)], split=split)
    [compared] = comparisons(RunReader(tmp_path))
    assert compared.levels == levels
    assert f"of 1 {levels} solved" in build_report(tmp_path).read_text(encoding="utf-8")


def test_the_headline_compares_the_same_levels(tmp_path):
    write_run(tmp_path, num_episodes=6)
    [compared] = comparisons(RunReader(tmp_path))
    before, after = compared.rates
    assert (after.num_successes, after.num_episodes) == (6, 6)
    assert before.num_successes < 6
    assert compared.paired.num_pairs == 6
    assert compared.paired.num_only_after == 6 - before.num_successes
    assert compared.paired.num_only_before == 0
    assert "Paired on 6 episodes on 5 recorded levels" in build_report(tmp_path).read_text(encoding="utf-8")


def test_the_headline_treats_seeds_that_give_one_level_as_a_cluster(tmp_path):
    writer = RunWriter(tmp_path)
    writer.config({"name": "mine"})
    failed, solved = play(0, rewrite=lambda response: "nothing"), play(0)
    for label, levels in (("before", [failed] * 6), ("after", [solved] * 4 + [failed] * 2)):
        # Each level under three seeds; all that change do so together
        episodes = [
            replace(episode, seed=3 * number + copy, start_state_hash=f"h{number}")
            for number, episode in enumerate(levels)
            for copy in range(3)
        ]
        rate = evaluated_rate([*map(start_of, episodes)], [each.success for each in episodes])
        write_evaluation(writer, label, 0, episodes, **rate)
    [compared] = comparisons(RunReader(tmp_path))
    assert (compared.paired.num_pairs, compared.num_paired_levels) == (18, 6)
    assert compared.paired.p_value == pytest.approx(2 / 2**4)
    assert compared.rates[1].interval == pytest.approx(wilson_interval(4, 6))
    [estimates] = [each for group in groups_of(tmp_path) for panel in group.panels for each in panel.estimates]
    assert (estimates.lows[1], estimates.highs[1]) == compared.rates[1].interval
    html = build_report(tmp_path).read_text(encoding="utf-8")
    assert "of 18 episodes on 6 held-out test levels solved" in html
    assert "McNemar" not in html


def groups_of(directory):
    reader = RunReader(directory)
    return panel_groups(reader.metrics(), reader.evaluations())


def test_the_headline_compares_one_split_only(tmp_path):
    writer = RunWriter(tmp_path)
    writer.config({})
    counts = {"num_episodes": 10, "env_id": "w"}
    writer.evaluation({"label": "before", "split": "test", "num_successes": 2, **counts})
    writer.evaluation({"label": "iteration 5", "split": "val", "num_successes": 10, **counts})
    [compared] = comparisons(RunReader(tmp_path))
    assert [rate.num_successes for rate in compared.rates] == [2]
    writer.evaluation({"label": "after", "split": "test", "num_successes": 7, **counts})
    [compared] = comparisons(RunReader(tmp_path))
    assert [rate.num_successes for rate in compared.rates] == [2, 7]
    assert compared.paired is None


def test_pictures_are_embedded_once_and_every_turn_finds_its_own(tmp_path):
    write_run(tmp_path)
    html = build_report(tmp_path).read_text(encoding="utf-8")
    run = payload(html)
    episodes = [episode for label in run["labels"] for episode in label["episodes"]]
    used = {name for e in episodes for moment in (*e["turns"], e["final"]) for name in moment["images"]}
    assert used == run["images"].keys()
    assert html.count("data:image/png;base64,") == len(used)
    # The first picture of a level is the same before and after
    first, last = (label["episodes"][0]["turns"][0]["images"] for label in run["labels"])
    assert first == last


def test_hostile_text_stays_text(tmp_path):
    writer = RunWriter(tmp_path)
    writer.config({"name": HOSTILE, "model": HOSTILE})
    writer.metrics({"iteration": 0, HOSTILE: 1.0, "judge/" + HOSTILE: 1.0})
    thoughts = f"<observation>{HOSTILE}</observation><reasoning>r</reasoning><prediction>p</prediction>"
    response = f"<think>{thoughts}</think><answer>Up</answer>"
    episodes = [
        play(0, rewrite=lambda _: response),
        play(1, rewrite=lambda _: HOSTILE),
    ]
    write_evaluation(writer, HOSTILE, 0, episodes, note=HOSTILE)
    html = build_report(tmp_path).read_text(encoding="utf-8")
    assert "<img" not in html.replace('"<img', "")
    assert html.count("</script>") == 2
    assert "<!-- " not in html
    good, bad = payload(html)["labels"][0]["episodes"]
    assert good["turns"][0]["sections"]["observation"] == HOSTILE.strip()
    assert bad["turns"][0]["response"] == HOSTILE
    assert bad["turns"][0]["parse_error"] == "<think> is missing"


def test_a_page_holds_why_a_response_had_no_action_and_its_format_error(tmp_path):
    writer = RunWriter(tmp_path)
    writer.config({"name": "unread"})
    episodes = [play(0, rewrite=lambda _: "<answer>perhaps up</answer>", reading="lenient")]
    write_evaluation(writer, "after", 0, episodes)
    (episode,) = payload(build_report(tmp_path).read_text(encoding="utf-8"))["labels"][0]["episodes"]
    turn = episode["turns"][0]
    assert "perhaps up" in turn["unread"] and "<think>" in turn["parse_error"]


def test_a_full_report_stays_small_and_a_fuller_one_is_cut(tmp_path):
    write_run(tmp_path, num_episodes=64, num_iterations=300)
    path = build_report(tmp_path)
    assert path.stat().st_size < 8_000_000
    assert [len(label["episodes"]) for label in payload(path.read_text("utf-8"))["labels"]] == [64, 64]
    path = build_report(tmp_path, max_bytes=400_000)
    assert path.stat().st_size < 600_000
    kept = payload(path.read_text("utf-8"))["labels"]
    assert kept[0]["num_recorded"] == 64
    assert 1 <= len(kept[0]["episodes"]) == len(kept[1]["episodes"]) < 64


def test_a_run_that_has_only_begun_has_a_report(tmp_path):
    with pytest.raises(MissingRunDataError):
        build_report(tmp_path)
    RunWriter(tmp_path).config({})
    html = build_report(tmp_path).read_text(encoding="utf-8")
    assert "No metrics have been recorded yet" in html and 'id="episodes"' not in html


def test_a_lost_picture_is_said_not_fatal(tmp_path):
    write_run(tmp_path, num_episodes=1)
    for path in (tmp_path / "images").rglob("*.png"):
        path.unlink()
    images = payload(build_report(tmp_path).read_text("utf-8"))["images"]
    assert images and set(images.values()) == {None}


def test_differences_are_marked_word_by_word():
    segments = mark_differences("player: (3, 2), goal: (0, 3)", "player: (3, 1), goal: (0, 3)")
    assert segments == [("player: (3, ", False), ("2", True), ("), goal: (0, 3)", False)]
    assert "".join(piece for piece, _ in mark_differences("a  b\nc", "x b y")) == "a  b\nc"
    assert compare("a b", "a  b\n", None)["verdict"] == "same"
    assert compare("a", None, {"p": (1, 2)}) == {
        "segments": [("a", False)],
        "truth": "{p: (1, 2)}",
        "verdict": "unknown",
    }


def test_wall_time_survives_clocks_that_start_again():
    assert wall_time_s([{"elapsed_s": each} for each in (5, 10, 2, 7)]) == 17
    assert [written_time(each) for each in (48, 725, 3900)] == ["48 s", "12 min 5 s", "1 h 5 min"]
    assert (written_p(0.0004), written_p(0.0214)) == ("p < 0.001", "p = 0.021")


def test_the_sentence_says_what_was_trained():
    metrics = [{"phase": "cold_start"}, *[{"phase": "rl"}] * 1200]
    config = {"config": {"model": "org/Some-VLM-3B", "trained_with": "PPO with bi-level GAE"}}
    assert sentence(config, metrics, [ENV_ID]) == (
        "Some-VLM-3B was trained to play FrozenLake with a supervised cold start on demonstrations and then "
        "1,200 iterations of PPO with bi-level GAE."
    )
    timed = [{**line, "elapsed_s": 725.0} for line in metrics]
    assert sentence(config, timed, [ENV_ID]).endswith("PPO with bi-level GAE, in 12 min 5 s.")
    stopped = {"config": {**config["config"], "num_iterations": 2000}}
    assert sentence(stopped, metrics, [ENV_ID]).endswith("1,200 of 2,000 iterations of PPO with bi-level GAE.")
    finished = {"config": {**config["config"], "num_iterations": 1200}}
    assert sentence(finished, metrics, [ENV_ID]) == sentence(config, metrics, [ENV_ID])
    assert find({"a": {"b": {"seed": 1}}, "c": {"seed": 2}}, "nothing", "seed") == 2


def test_adapted_worlds_are_called_by_their_names():
    worlds = [
        {"env_id": "adapt:worlds/lake.toml", "adapted": {"name": "Thin Ice"}},
        {"env_id": "adapt:CartPole-v1", "adapted": {"name": "CartPole-v1"}},
        {"env_id": ENV_ID},
    ]
    names = ["adapt:worlds/lake.toml (size=8)", "adapt:worlds/lake.toml #2", "adapt:CartPole-v1", ENV_ID]
    told = sentence({"config": {"model": "m", "worlds": worlds}}, [], names)
    assert "to play Thin Ice (size=8) and Thin Ice #2 and CartPole and FrozenLake with" in told


def failing(seed):
    """An episode that jumps at nothing: out of the format in every turn."""
    return play(seed, rewrite=lambda _: "hm")


def test_all_failures_are_shown_first_however_few_episodes_fit(tmp_path):
    writer = RunWriter(tmp_path)
    writer.config({})
    write_evaluation(writer, "before", 0, [play(seed) if seed == 1 else failing(seed) for seed in range(6)])
    write_evaluation(writer, "after", 5, [failing(seed) if seed in (2, 5) else play(seed) for seed in range(6)])
    before, after = payload(build_report(tmp_path, max_episodes=3).read_text(encoding="utf-8"))["labels"]
    assert [episode["seed"] for episode in after["episodes"]] == [2, 5, 0]
    assert [episode["success"] for episode in after["episodes"]] == [False, False, True]
    # What failed after comes first before, too, so that the two can lie beside each other
    assert [episode["seed"] for episode in before["episodes"]] == [2, 5, 0]
    assert (before["num_failed"], after["num_failed"], after["num_recorded"]) == (5, 2, 6)
    assert after["episodes"][0]["mistake"]["kind"] == "out of format"


def test_training_episodes_are_shown_with_their_credit_and_first_observations_with_a_verdict(tmp_path):
    writer = write_run(tmp_path)
    episode = play(3)
    credit = {"advantage": -0.5, "value": 6.25}
    writer.trajectories(training_label(10), [episode], [[TurnNotes(credit=credit) for _ in episode.turns]])
    writer.trajectories(training_label(2), [episode])
    labels = payload(build_report(tmp_path).read_text(encoding="utf-8"))["labels"]
    assert [label["label"] for label in labels] == ["before", "after", "training 2", "training 10"]
    turn = labels[-1]["episodes"][0]["turns"][0]
    assert turn["credit"] == credit
    assert turn["claims"]["observation"]["verdict"] == "same"
    assert [label["is_training"] for label in labels] == [False, False, True, True]


def test_only_the_same_levels_are_compared(tmp_path):
    for name in ("one", "two"):
        writer = write_run(tmp_path / name, num_episodes=2)
        write_evaluation(writer, "validation 5", 5, [play(seed) for seed in (70, 71)])
        write_evaluation(writer, "validation 10", 10, [play(seed) for seed in (71, 72)])
        writer.trajectories(training_label(0), [play(0)])
        writer.trajectories(training_label(1), [play(0 if name == "one" else 1)])
    labels = payload(build_report(tmp_path / "one").read_text(encoding="utf-8"))["labels"]
    assert {label["label"]: label["beside"] for label in labels} == {
        "before": None,
        "after": "before",
        "validation 5": None,
        "validation 10": "validation 5",
        "training 0": None,
        "training 1": None,
    }
    html = build_report(tmp_path / "one", beside=tmp_path / "two").read_text(encoding="utf-8")
    labels = {label["label"]: label["beside"] for label in payload(html)["labels"] if label["is_training"]}
    assert labels == {
        "one · training 0": None,
        "one · training 1": None,
        "two · training 0": "one · training 0",
        "two · training 1": None,
    }


def test_two_runs_lie_beside_each_other(tmp_path):
    write_run(tmp_path / "one")
    write_run(tmp_path / "two", num_iterations=3)
    path = build_report(tmp_path / "one", beside=tmp_path / "two")
    assert path == tmp_path / "one" / "report_beside_two.html"
    html = path.read_text(encoding="utf-8")
    labels = {label["label"]: label["beside"] for label in payload(html)["labels"]}
    assert labels == {
        "one · before": None,
        "one · after": "one · before",
        "two · before": "one · before",
        **{"two · after": "one · after"},
    }
    curves = [len(panel["curves"]) for panel in payload(html)["panels"]]
    assert curves and set(curves) == {2}
    assert "Paired on 4 episodes on 3 recorded levels: 0 solved only by two, 0 only by one, 4 by both" in html


@pytest.mark.parametrize("richer", ["one", "two"])
def test_a_metric_of_one_run_only_is_drawn_beside_nothing(tmp_path, richer):
    for name in ("one", "two"):
        write_run(tmp_path / name)
    metrics = tmp_path / richer / "metrics.jsonl"
    lines = [json.loads(line) | {"only_here": 0.5} for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    html = build_report(tmp_path / "one", beside=tmp_path / "two").read_text(encoding="utf-8")
    assert "Only here" in html
    assert [False, True] in [sorted(bool(curve["xs"]) for curve in each["curves"]) for each in payload(html)["panels"]]


def test_the_worlds_of_a_mix_stand_under_success_as_rates():
    lines = [
        {"iteration": 0, "phase": "rl", "success": 0.5, "success/VLM/FrozenLake-v0": 0.5, "success/my:Own/B-v0": 0.5}
    ]
    groups = {group.title: group.panels for group in panel_groups(lines, [])}
    assert [panel.title for panel in groups["Success"]][1:] == ["VLM/FrozenLake-v0", "my:Own/B-v0"]
    assert {panel.scale for panel in groups["Success"]} == {"rate"}


def test_a_live_page_reads_its_file_again_and_a_finished_one_does_not(tmp_path):
    write_run(tmp_path)
    live = build_report(tmp_path, reload_s=20).read_text(encoding="utf-8")
    assert payload(live)["reload_s"] == 20 and "live: reloaded every 20 s" in live
    assert payload(build_report(tmp_path).read_text(encoding="utf-8"))["reload_s"] is None


def test_success_stands_beside_the_label_where_a_phone_still_shows_it(tmp_path):
    write_run(tmp_path)
    html = build_report(tmp_path).read_text(encoding="utf-8")
    header = re.search(r"<thead><tr>(.*?)</tr>", html.partition('id="evaluations"')[2])[1]
    assert header.startswith("<th>label</th><th>success</th>")
    assert '<td data-name="label" class="label">before</td>' in html  # what the phone's layout goes by
    assert re.search(r'<td data-name="success" class="success">100%</td>', html)


def test_a_policy_chosen_on_validation_levels_is_named(tmp_path):
    writer = write_run(tmp_path, num_iterations=5)
    assert [each.chosen for each in comparisons(RunReader(tmp_path))] == [""]
    chosen = {"policy_iteration": 3, "validation_success": 0.75}
    write_evaluation(writer, "after", 5, [play(seed) for seed in range(4)], **chosen)
    told = "the policy of iteration 3, which solved most validation levels (75.0%): best/model"
    assert [each.chosen for each in comparisons(RunReader(tmp_path))] == [told]
    assert f"After: {told}." in build_report(tmp_path).read_text(encoding="utf-8")
    (group, *_) = panel_groups([], RunReader(tmp_path).evaluations())
    assert [estimates.xs for estimates in group.panels[0].estimates] == [(0.0, 3.0, 5.0)]
