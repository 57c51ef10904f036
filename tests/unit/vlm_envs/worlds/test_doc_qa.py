import json

import gymnasium as gym
import pytest

import vlm_envs
from tests.unit.vlm_envs.tools.pdfs import pdf
from vlm_envs.content.reports.report_rendering import ReportDocument
from vlm_envs.content.reports.report_source import ReportSource
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.qa.document_context import DocumentContext, DocumentOverview

for package in ("reportlab", "matplotlib", "pypdfium2", "bm25s", "pydantic"):
    pytest.importorskip(package, reason=f"needs {package}: pip install '.[tools]'")

ENV_ID = "VLM/DocQA-v0"


def world_at(level, **kwargs):
    world = vlm_envs.make(ENV_ID, **kwargs).unwrapped
    observation, info = world.reset(options={"level": level})
    return world, observation, info


def call(name, **arguments):
    return f"<think>look</think><tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def answer(text):
    return f"<think>done</think><answer>{text}</answer>"


def played(world):
    """Plays what an expert does; returns the calls and the last info."""
    calls, over = [], False
    while not over:
        plan = world.dynamics.plan(world.state)
        sections = world.task.expert_sections(world.state, plan[:1])
        _, reward, terminated, truncated, info = world.step(world.write_response(plan[:1], sections))
        over = terminated or truncated
        calls = [(record.name, json.loads(record.text)["arguments"]) for record in world.state.calls]
    return calls, reward, info


def test_the_first_observation_is_the_contact_sheet():
    world, observation, _ = world_at("report:12:table_lookup:1")
    (sheet,) = observation["images"]
    overview = DocumentOverview(world.state.sample.document, 4_194_304)
    assert sheet.shape == (overview.height, overview.width, 3)
    assert "12 pages" in observation["text"]
    assert world.state.sample.document.name in observation["text"]
    assert '"Not answerable"' in observation["text"]


@pytest.mark.parametrize("num_pages", [5, 17, 60])
@pytest.mark.parametrize("max_pixels", [60_000, 1_000_000, 4_194_304])
@pytest.mark.sample(3)
def test_the_size_of_a_sheet_is_known_before_it_is_drawn(num_pages, max_pixels):
    overview = DocumentOverview(ReportDocument.of(num_pages, 2), max_pixels)
    size = overview.width, overview.height
    assert size[0] * size[1] <= max_pixels
    if num_pages < 60:
        assert (overview.picture().width, overview.picture().height) == size


@pytest.mark.parametrize("category", ["table_lookup", "comparison", "cross_page", "page_label"])
@pytest.mark.sample(1)
def test_the_expert_fetches_the_evidence_and_answers(category):
    world, _, _ = world_at(f"report:14:{category}:5")
    pages = world.state.sample.evidence_pages
    calls, reward, info = played(world)
    assert [arguments["image_idx"] for name, arguments in calls if name.endswith("by_index")] == list(pages)
    assert calls[0][0] == "doc_page_retrieval_by_query"
    assert reward == 1.0
    assert info["success"]
    assert info["metrics"]["page_accuracy"] == info["metrics"]["page_recall"] == 1.0
    assert info["metrics"]["successful_calls"] == len(calls)


def test_four_pages_leave_no_call_for_a_search():
    source = ReportSource(60, categories=("comparison",))
    sample = next(
        s for seed in range(200) if len((s := source.find(f"report:60:comparison:{seed}")).evidence_pages) == 4
    )
    calls = DocumentContext().planned_calls(sample, 4)
    assert [json.loads(text)["arguments"].get("image_idx") for text in calls] == list(sample.evidence_pages)


def test_the_expert_searches_before_it_says_that_there_is_no_answer():
    world, _, _ = world_at("report:9:unanswerable:4")
    calls, reward, info = played(world)
    assert [name for name, _ in calls] == ["doc_page_retrieval_by_query"]
    assert reward == 1.0
    assert "page_accuracy" not in info["metrics"]


def test_pages_are_measured_by_what_was_fetched():
    world, _, _ = world_at("report:14:cross_page:5")
    first, second = world.state.sample.evidence_pages
    name = world.state.sample.document.name
    world.step(call("doc_page_retrieval_by_index", filename=name, image_idx=float(second)))
    world.step(call("doc_page_retrieval_by_index", filename=name, image_idx=99))
    world.step(call("doc_page_retrieval_by_index", filename=name, image_idx=1))
    assert 1 not in (first, second)
    _, reward, _, _, info = world.step(answer("unknown"))
    assert reward == 0.0
    metrics = info["metrics"]
    assert metrics["page_accuracy"] == 0.0
    assert metrics["page_recall"] == 0.5
    assert (metrics["calls"], metrics["successful_calls"]) == (3.0, 2.0)


def test_an_answer_without_a_look_names_no_page():
    world, _, _ = world_at("report:9:table_lookup:4")
    _, reward, terminated, _, info = world.step(answer(world.state.sample.key.answers[0]))
    assert (reward, terminated) == (1.0, True)
    assert info["metrics"]["page_accuracy"] == 0.0
    assert info["metrics"]["anls"] == 1.0


@pytest.mark.parametrize("name", ["other.pdf", "../secret.pdf", "/outside/secret.txt", "<b>bold</b>", ""])
def test_other_documents_are_refused_in_words(name):
    world, _, _ = world_at("report:5:text_fact:1")
    observation, _, terminated, _, info = world.step(call("doc_page_retrieval_by_index", filename=name, image_idx=1))
    assert not terminated
    assert "Error (unknown_file)" in observation["text"]
    assert observation["text"].count("<tool_response>") == 1
    assert observation["images"] == ()
    assert info["metrics"]["successful_calls"] == 0.0


def test_a_fetched_page_can_be_zoomed_into():
    world, _, _ = world_at("report:5:text_fact:1")
    name = world.state.sample.document.name
    page, *_ = world.step(call("doc_page_retrieval_by_index", filename=name, image_idx=3))
    assert max(page["images"][0].shape) == 1120
    part, *_ = world.step(call("image_zoom_in_tool", image="observation_1", bbox_2d=[0, 0, 500, 500]))
    assert part["images"][0].shape[0] == pytest.approx(560, abs=2)


@pytest.mark.soak
def test_searches_find_the_right_page_more_often_than_not():
    """The look-alikes are meant to mislead, but a question's own words must lead somewhere."""
    context, source = DocumentContext(), ReportSource(30, categories=("text_fact", "table_lookup"))
    hits = 0
    for seed in range(30):
        sample = source.find(f"report:30:{('text_fact', 'table_lookup')[seed % 2]}:{seed}")
        found = context.retrieval.retriever.search(sample.document, sample.question)
        hits += sample.evidence_pages[0] in found[:5]
    assert hits >= 20


def test_direct_has_no_tools():
    world, observation, _ = world_at("report:6:text_fact:1", prompt_format="direct")
    assert "doc_page_retrieval" not in observation["text"]
    assert world.max_turns == 1


def labels_only():
    return ReportSource(7, categories=("page_label",))


@pytest.mark.parametrize("source", [labels_only(), f"{__name__}:labels_only"])
def test_a_source_of_the_users_own_replaces_the_reports(source):
    world = gym.make(ENV_ID, source=source).unwrapped
    world.reset(seed=0)
    assert world.state.sample.category == "page_label"


def test_a_users_own_pdf_files(tmp_path):
    (tmp_path / "plan.pdf").write_bytes(pdf(["first page", "the budget is 42 crowns", ""]))
    row = {"document": "plan.pdf", "question": "What is the budget?", "answer": "42 crowns", "pages": [2]}
    (tmp_path / "questions.json").write_text(json.dumps([row]))
    world, observation, _ = world_at("pdf_folder:1", dataset="pdf_folder", folder=str(tmp_path))
    assert "plan.pdf: 3 pages" in observation["text"]
    calls, reward, info = played(world)
    assert [arguments.get("image_idx") for _, arguments in calls] == [None, 2]
    assert reward == 1.0
    assert info["metrics"]["page_accuracy"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": "mp_docvqa"}, "both dataset and folder"),
        ({"dataset": "mp_docvqa", "folder": ".", "source": labels_only()}, "or a source"),
        ({"dataset": "docvqa", "folder": "."}, "dataset must be one of"),
        ({"dataset": "mp_docvqa", "folder": ""}, r"^folder must be a folder's path; got ''\."),
        ({"source": 3}, "source must be 'module:factory' or an object with draw and find"),
        ({"retriever": "json:JSONDecoder"}, "retriever must be 'module:factory' or an object with search"),
        ({"num_pages": 3}, "num_pages must be from 5 to 60"),
        ({"categories": ("charts",)}, "categories must be one of"),
    ],
)
def test_unusable_arguments_are_explained(arguments, message):
    with pytest.raises(ConfigError, match=message):
        gym.make(ENV_ID, **arguments)


def test_levels_are_ids():
    with pytest.raises(LevelError, match="report:<pages>"):
        world_at("report:5:nothing:1")
    with pytest.raises(ConfigError, match="prompt_format"):
        gym.make(ENV_ID, prompt_format="mags")


def test_without_the_sheet_nothing_is_seen_before_a_tool_shows_it():
    world, observation, _ = world_at("report:6:page_label:1", show_sheet=False)
    assert observation["images"] == ()
    assert (
        "original_image shows" not in observation["text"]
        and "6 pages. Tools know each by its pos" in observation["text"]
    )
    refused, *_ = world.step(call("image_zoom_in_tool", image="original_image", bbox_2d=[0, 0, 500, 500]))
    assert "Error" in refused["text"] and refused["images"] == ()
    calls, reward, info = played(world)
    assert (reward, info["success"]) == (1.0, True)
    assert calls[-1][0] == "doc_page_retrieval_by_index"


def test_answers_from_the_sheet_alone_need_the_sheet():
    with pytest.raises(ConfigError, match=r"prompt_format='direct' .*show_sheet must be True"):
        gym.make(ENV_ID, prompt_format="direct", show_sheet=False)
    with pytest.raises(ConfigError, match="show_sheet must be True or False; got 0"):
        gym.make(ENV_ID, show_sheet=0)
