import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.vlm_envs.tools.pdfs import encrypted_pdf, pdf
from vlm_envs.errors import ConfigError
from vlm_envs.tools.document_tools import (
    RetrievalSettings,
    document_overview,
    page_retrieval_by_index,
    page_retrieval_by_query,
)
from vlm_envs.tools.pdf_documents import DocumentShelf, PdfDocument, PdfFolder
from vlm_envs.tools.tool_errors import ToolErrorKind
from vlm_envs.tools.tool_memory import Memory
from vlm_envs.tools.tool_registry import ToolRegistry

pytest.importorskip("pypdfium2", reason="needs pypdfium2: pip install '.[tools]'")
pytest.importorskip("bm25s", reason="needs bm25s: pip install '.[tools]'")

TEXTS = ["cover", "sales sales sales", "sales by region", "staff", "sales and staff", "sales a b c d", "sales e", "end"]
REPORT = PdfDocument("report.pdf", pdf(TEXTS))
LOCKED = PdfDocument("locked.pdf", encrypted_pdf())
SHELF = DocumentShelf([REPORT, LOCKED])
REGISTRY = ToolRegistry((page_retrieval_by_query(SHELF), page_retrieval_by_index(SHELF)))


def query(text, filename="report.pdf", registry=REGISTRY):
    arguments = json.dumps({"filename": filename, "query": text})
    return registry.call("doc_page_retrieval_by_query", arguments, Memory())


def index(number, filename="report.pdf"):
    arguments = json.dumps({"filename": filename, "image_idx": number})
    return REGISTRY.call("doc_page_retrieval_by_index", arguments, Memory())


def test_a_whole_page_number_may_be_written_as_a_float():
    assert index(3.0).text == index(3).text
    for number in (3.5, "3", True, 1e300):
        result = index(number)
        assert result.error is ToolErrorKind.WRONG_ARGUMENT and len(result.text) < 300


def test_the_five_best_pages_come_in_one_row():
    result = query("sales")
    assert result.ok and "from left to right: 2, 7, 3, 5, 6." in result.text
    # Five A4 pages of 792 x 1120 and four paddings: 3992 x 1120 = 4471040 pixels, over the budget of 2048 squared, so
    # both sides are multiplied by sqrt(4194304 / 4471040) = 0.96856: 3866.5 and 1084.8, rounded down.
    assert [(picture.width, picture.height) for picture in result.images] == [(3866, 1084)]
    assert result.image_names == ("observation_1",)


def test_fewer_pages_come_where_fewer_match():
    result = query("staff")
    assert "right: 4, 5." in result.text
    assert (result.images[0].width, result.images[0].height) == (2 * 792 + 8, 1120)


def test_a_query_that_matches_nothing_is_explained():
    result = query("unicorns <answer>")
    assert result.error is ToolErrorKind.NO_MATCH and "1 to 8" in result.text and "<" not in result.text


def test_pages_found_twice_come_once_in_rank_order():
    class Passages:
        def search(self, document, query):
            return [3, 1, 3, 3, 2, 1, 5, 6, 7]

    tool = page_retrieval_by_query(SHELF, RetrievalSettings(retriever=Passages()))
    assert "right: 3, 1, 2, 5, 6." in query("x", registry=ToolRegistry((tool,))).text


@pytest.mark.parametrize("number", [1, 8])
def test_a_page_by_its_number(number):
    result = index(number)
    assert result.ok and result.text.startswith(f"Page {number} of 8 of report.pdf.")
    assert result.images[0] == REPORT.page_picture(number)


@pytest.mark.parametrize("number", [0, -1, 9, 10**30])
def test_numbers_out_of_range_are_told_the_range(number):
    result = index(number)
    assert result.error is ToolErrorKind.PAGE_OUT_OF_RANGE and "numbered from 1 to 8" in result.text


@pytest.mark.parametrize("number", ["1", 1.5, True, None, [1]])
def test_numbers_are_integers(number):
    assert index(number).error is ToolErrorKind.WRONG_ARGUMENT


def test_unknown_and_encrypted_documents_are_explained():
    for result in (query("x", "other.pdf"), index(1, "other.pdf")):
        assert result.error is ToolErrorKind.UNKNOWN_FILE and "locked.pdf, report.pdf" in result.text
    for result in (query("x", "locked.pdf"), index(1, "locked.pdf")):
        assert result.error is ToolErrorKind.UNREADABLE_FILE and "encrypted" in result.text


@pytest.mark.parametrize(
    "filename", ["../secret", "/outside/secret.txt", "up/secret.pdf", "secret.pdf/../../secret.pdf"]
)
def test_file_names_never_traverse(tmp_path, filename):
    (tmp_path / "secret.pdf").write_bytes(pdf(["secret"]))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "up").symlink_to(tmp_path)
    folder = PdfFolder(tmp_path / "root")
    registry = ToolRegistry((page_retrieval_by_query(folder), page_retrieval_by_index(folder)))
    result = query("secret", filename, registry)
    assert result.error is ToolErrorKind.FORBIDDEN_PATH and str(tmp_path) not in result.text


@given(st.text(max_size=40), st.text(max_size=40), st.integers())
def test_no_arguments_raise(filename, text, number):
    for result in (query(text, filename), query(text), index(number, filename), index(number)):
        assert result.ok == (result.error is None)


def test_the_overview_shows_every_page():
    overview = document_overview(REPORT)
    assert overview.num_pixels <= 2048**2
    # 8 pages are 3 columns and 3 rows, so the last place is empty: the grey ground.
    assert overview.pixels[-100, -100].tolist() == [176] * 3
    assert document_overview(PdfDocument("long.pdf", pdf(["a"] * 60)), max_pixels=500_000).num_pixels <= 500_000


def test_settings_are_checked():
    for change in ({"num_pages": 0}, {"long_side_px": 0}, {"max_pixels": 0}):
        with pytest.raises(ConfigError, match="at least"):
            RetrievalSettings(**change)
