"""What the report's page does with its episodes: `browsing.js`, which needs no browser, under Node."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import vlm_envs.records.report_page

SCRIPT = Path(vlm_envs.records.report_page.__file__).parent / "report" / "browsing.js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs Node.js: https://nodejs.org (apt install nodejs)")


def in_page(labels, *statements):
    """Runs statements with a `page` of these labels; returns what each `say(…)` was given."""
    source = "\n".join(
        [
            SCRIPT.read_text(encoding="utf-8"),
            "const said = [], say = (value) => said.push(value ?? null);",
            f"const page = new Browsing({json.dumps(labels)});",
            *statements,
            "console.log(JSON.stringify(said));",
        ]
    )
    done = subprocess.run([str(NODE), "-"], input=source, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def episode(seed, kind=None, said=""):
    mistake = kind and {"kind": kind, "turn": 0, "detail": ""}
    turns = [{"response": said, "parse_error": None, "actions": []}]
    return {"key": f"w/{seed}/0", "seed": seed, "success": kind is None, "mistake": mistake, "turns": turns}


def recorded(label, *episodes, beside=None, run="", num_more=0):
    return {
        "label": label,
        "run": run,
        "is_training": label.startswith("training"),
        "beside": beside,
        "num_recorded": len(episodes) + num_more,
        "num_failed": sum(not each["success"] for each in episodes),
        "episodes": list(episodes),
    }


BEFORE = recorded("before", episode(1, "lost", "left"), episode(2, "cut off", "down"))
AFTER = recorded("after", episode(2, "lost", "down"), episode(1, said="up"), beside="before")
TRAINING = recorded("training 0", episode(7, "lost", "up"))
LABELS = [BEFORE, AFTER, TRAINING]


@needs_node
def test_the_page_opens_on_the_last_evaluations_first_failure():
    assert in_page(LABELS, "say(page.toAddress()); say(page.episode().seed)") == ["#label=after&episode=w%2F2%2F0", 2]


@needs_node
@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("#label=before&episode=w%2F99%2F0", "No episode “w/99/0” under “before” on this page. Choose another above."),
        ("#label=iteration+5&episode=w%2F1%2F0", "Nothing called “iteration 5” is on this page. Choose another above."),
    ],
)
def test_an_address_that_leads_nowhere_is_said_and_leaves_the_list_usable(address, sentence):
    told, shown, kept, listed, *after = in_page(
        LABELS,
        f"page.follow({json.dumps(address)});",
        "say(page.missing); say(page.episode()); say(page.toAddress()); say(page.position());",
        "page.go(1); say(page.missing); say(page.position());",
    )
    assert (told, shown, kept, listed) == (sentence, None, address, "None of 2 chosen")
    assert after == ["", "Episode 1 of 2"]


@needs_node
def test_an_episode_that_may_have_been_left_out_is_told_so():
    labels = [recorded("after", episode(1, "lost"), num_more=4)]
    assert in_page(labels, "page.follow('#label=after&episode=w%2F2%2F0'); say(page.missing)") == [
        "No episode “w/2/0” under “after” on this page, which has only 1 of the 5 recorded. Choose another above."
    ]


@needs_node
def test_a_search_without_hits_is_kept_and_so_are_the_buttons():
    address, position, mistakes, *again = in_page(
        LABELS,
        "page.change({ mistake: 'lost' }); page.change({ query: 'zebra' });",
        "say(page.toAddress()); say(page.position()); say(page.mistakes());",
        "page.follow('#label=before'); page.follow('#label=after&mistake=lost&search=zebra');",
        "say(page.query); say(page.mistake); say(page.missing); say(page.chosen().length);",
    )
    assert address == "#label=after&mistake=lost&search=zebra"
    assert (position, mistakes) == ("No such episode", [["lost", 0]])
    assert again == ["zebra", "lost", "", 0]


@needs_node
def test_only_what_is_compared_can_be_newly_solved():
    names, compared, other_run = in_page(
        [*LABELS, recorded("b · after", episode(2), beside="after", run="b")],
        "for (const label of [2, 1, 3]) { page.change({ label, filter: 'all' }); say(page.filters()); }",
    )
    assert [title for _, title, _ in names] == ["All", "Solved", "Failed"]
    assert compared[3:] == [["gained", "Newly solved", 1], ["lost", "Newly failed", 0]]
    assert other_run[3:] == [["gained", "Solved only here", 1], ["lost", "Failed only here", 0]]


@needs_node
def test_a_filter_of_another_evaluation_falls_away_and_the_level_stays():
    assert in_page(
        LABELS,
        "page.change({ filter: 'gained' }); say(page.episode().seed);",
        "page.change({ label: 0 }); say(page.filter); say(page.episode().seed); page.go(5); say(page.index);",
    ) == [1, "all", 1, 0]


@needs_node
def test_an_address_leads_to_its_episode_whatever_else_it_says():
    assert in_page(
        LABELS,
        "page.follow('#label=after&episode=w%2F1%2F0&filter=failed&search=down&alone=yes');",
        "say(page.episode().seed); say(page.missing); say(page.toAddress()); say(page.follow('#episodes'));",
    ) == [1, "", "#label=after&episode=w%2F1%2F0&alone=yes", False]


@needs_node
def test_what_went_wrong_is_a_sentence_and_numbers_have_true_minus_signs():
    assert in_page(
        [],
        "say(blame({ kind: 'lost', turn: 0 })); say(blame({ kind: 'not solved', turn: null }));",
        "say([-2.2e-4, 2e6, 1234.4, 0.1234, 0, null].map((value) => short(value))); say(short(0.3125, 'rate'));",
        "say(signed(-0.5));",
    ) == [
        "First mistake: lost in turn 1.",
        "Not solved; no single turn caused it.",
        ["−2.2e−4", "2e6", "1,234", "0.123", "0", "–"],
        "31.3%",
        "−0.5",
    ]


@needs_node
@pytest.mark.parametrize(
    ("turn", "shown"),
    [
        ({"actions": ["Up"], "parse_error": None}, []),
        ({"actions": ["Up"], "parse_error": "no <think>"}, [["Not in the format: ", "no <think>"]]),
        ({"actions": [], "parse_error": "no <think>"}, [["Not understood: ", "no <think>"]]),
        ({"actions": [], "parse_error": "same", "unread": "same"}, [["Not understood: ", "same"]]),
        (
            {"actions": [], "parse_error": "no <think>", "unread": "no action"},
            [["Not understood: ", "no action"], ["Not in the format: ", "no <think>"]],
        ),
        ({"actions": [], "parse_error": "no <think>", "stop_reason": "context", "response": ""}, []),
    ],
)
def test_a_turn_shows_why_it_had_no_action_beside_its_format_error(turn, shown):
    script = SCRIPT.with_name("turns.js").read_text(encoding="utf-8")
    source = f"{script}\nconsole.log(JSON.stringify(readingErrors({json.dumps(turn)})));"
    done = subprocess.run([str(NODE), "-"], input=source, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == shown
