import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.vlm_envs.tools.pdfs import encrypted_pdf, form_pdf, pdf
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.tools import tool_errors
from vlm_envs.tools.pdf_documents import DocumentShelf, PdfDocument, PdfFolder, PictureDocument
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind

pytest.importorskip("pypdfium2", reason="needs pypdfium2: pip install '.[tools]'")


CHECKOUT = Path(__file__).parents[4]


def report(texts=("first page", "second page", "")):
    return PdfDocument("report.pdf", pdf(list(texts)))


def white(height=20):
    return Picture(np.full((height, 10, 3), 255, np.uint8))


def test_pages_are_numbered_from_one():
    document = report()
    assert document.num_pages == 3
    assert [document.page_text(number) for number in (1, 2, 3)] == ["first page", "second page", ""]


def test_pages_are_rendered_at_the_long_side_asked_for():
    # A4 in whole points: 595 / 842 * 1120 = 791.4, which PDFium rounds up.
    picture = report().page_picture(1)
    assert (picture.width, picture.height) == (792, 1120)
    assert picture.pixels.min() < 60  # Something is written in black,
    assert np.array_equal(picture.pixels[-1, -1], [255, 255, 255])  # on white.
    assert max(report().page_picture(1, 100).pixels.shape) == 100


def test_colors_are_red_green_blue():
    stream = pdf(["x) Tj ET 1 0 0 rg 0 0 595 842 re f BT (y"])
    assert PdfDocument("red", stream).page_picture(1, 100).pixels[50, 30].tolist() == [255, 0, 0]


def test_values_of_form_fields_are_drawn_and_are_part_of_the_text():
    document = PdfDocument("form.pdf", form_pdf())
    page = document.page_picture(1, 842).pixels
    field = page[842 - 724 : 842 - 700, 40:240]  # A4, one pixel per point.
    assert (field.max(-1) < 100).sum() > 100
    text = document.page_text(1)
    assert all(value in text for value in ("Order form", "QX-4711", "Bergen", "checked by Frida"))
    assert "swordfish" not in text and "obsolete" not in text  # They are not to be seen on the page either.


def test_a_word_divided_at_the_end_of_a_line_has_a_soft_hyphen():
    text = PdfDocument("report.pdf", pdf(["rev-) Tj 0 -30 Td (enue"])).page_text(1)
    assert text == "rev\N{SOFT HYPHEN}enue"


@pytest.mark.parametrize("number", [0, -1, 4, 10**6])
def test_other_numbers_are_told_the_range(number):
    for act in (report().page_text, report().page_picture):
        with pytest.raises(ToolError, match="has 3 pages, numbered from 1 to 3") as refusal:
            act(number)
        assert refusal.value.kind is ToolErrorKind.PAGE_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no PDF"),
        (b"%PDF-1.4", "no PDF"),
        (b"not a pdf" * 100, "no PDF"),
        (pdf(["a"])[:150], "no PDF"),
        (encrypted_pdf(), "encrypted"),
        (pdf([]), "without pages"),
    ],
    ids=["empty", "header", "text", "truncated", "encrypted", "no pages"],
)
def test_what_cannot_be_read_is_explained(content, reason):
    document = PdfDocument("x.pdf", content)
    for act in (lambda: document.num_pages, lambda: document.page_picture(1), lambda: document.page_text(1)):
        with pytest.raises(ToolError, match=reason) as refusal:
            act()
        assert refusal.value.kind is ToolErrorKind.UNREADABLE_FILE


def test_documents_of_too_many_pages_are_refused():
    assert PdfDocument("long.pdf", pdf([""] * 3), max_pages=3).num_pages == 3
    with pytest.raises(ToolError, match="has 3 pages; documents of at most 2") as refusal:
        PdfDocument("long.pdf", pdf([""] * 3), max_pages=2).page_picture(1)
    assert refusal.value.kind is ToolErrorKind.TOO_LARGE


def test_large_files_are_refused(monkeypatch):
    monkeypatch.setattr("vlm_envs.tools.pdf_documents.MAX_PDF_BYTES", 100)
    with pytest.raises(ToolError, match="at most 100 are read"):
        report().page_text(1)


@pytest.mark.parametrize("size", [(1, 300), (300, 300), (300, 1), (1e-3, 1e-3), (300, 0.001)])
def test_pages_of_any_size_are_bounded(size):
    document = PdfDocument("odd.pdf", pdf(["a"], size=size))
    try:
        picture = document.page_picture(1, 100)
    except ToolError as refusal:
        assert refusal.kind is ToolErrorKind.UNREADABLE_FILE
    else:
        assert max(picture.width, picture.height) <= 100


def test_text_is_bounded(monkeypatch):
    monkeypatch.setattr("vlm_envs.tools.pdf_documents.MAX_PAGE_CHARS", 5)
    assert report().page_text(1) == "first"


@given(st.data())
def test_damaged_bytes_raise_nothing_else(data):
    content = bytearray(pdf(["some words here", "more words"]))
    for _ in range(data.draw(st.integers(1, 30))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    document = PdfDocument("x.pdf", bytes(content))
    try:
        for number in range(1, min(document.num_pages, 3) + 1):
            document.page_text(number)
            assert max(document.page_picture(number, 64).pixels.shape) <= 64
    except ToolError:
        pass


def test_handles_are_not_pickled_and_open_again():
    document = report()
    document.page_text(1)
    other = pickle.loads(pickle.dumps(document))
    assert other.page_text(2) == "second page" and other.digest == document.digest
    document.close()
    document.close()
    assert document.page_text(1) == "first page"


def test_threads_may_share_a_document():
    document = report([f"page {number}" for number in range(1, 9)])
    failures = []

    def read(number):
        for _ in range(5):
            if document.page_text(number) != f"page {number}":
                failures.append(number)
            document.page_picture(number, 80)
            document.close()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_nothing_is_said_of_documents_open_at_the_end(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pdf(["a"]))
    program = (
        "import sys; from vlm_envs.tools.pdf_documents import PdfFolder\n"
        "document = PdfFolder(sys.argv[1]).document('a'); print(document.page_text(1))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, timeout=280, check=True)
    assert (result.stdout.strip(), result.stderr) == ("a", "")


def test_a_missing_engine_names_the_extra(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(tool_errors.importlib, "import_module", missing)
    with pytest.raises(EngineUnavailableError, match=r"pip install -e '\.\[tools\]'"):
        report().page_text(1)


def test_a_folder_of_pdf_files(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pdf(["alpha"]))
    (tmp_path / "b.pdf").write_bytes(pdf(["beta"]))
    (tmp_path / "notes.txt").write_text("x")
    folder = PdfFolder(tmp_path, max_open=1)
    assert folder.names() == ["a.pdf", "b.pdf"]
    first = folder.document("a.pdf")
    assert first.page_text(1) == "alpha"
    assert folder.document("b").page_text(1) == "beta"  # With or without the suffix; closes the first,
    assert first.page_text(1) == "alpha"  # which opens again.
    assert folder.document("b.pdf") is folder.document("b")
    assert pickle.loads(pickle.dumps(folder)).document("a").page_text(1) == "alpha"
    with pytest.raises(ToolError) as refusal:
        folder.document("../a")
    assert refusal.value.kind is ToolErrorKind.FORBIDDEN_PATH
    with pytest.raises(ToolError, match=r"a\.pdf, b\.pdf"):
        folder.document("c")


def test_documents_of_pictures():
    document = PictureDocument("scan", (white(), white(3000)), ("one", "two"))
    assert (document.num_pages, document.page_text(2)) == (2, "two")
    assert document.page_picture(1) == white()
    assert document.page_picture(2).height == 1120
    assert PictureDocument("scan", (white(),)).page_text(1) == ""
    with pytest.raises(ToolError, match="numbered from 1 to 2"):
        document.page_picture(3)
    assert document.digest != PictureDocument("scan", (white(), white(3000)), ("one", "2")).digest
    assert document.digest != PictureDocument("scan", (white(), white(3001)), ("one", "two")).digest
    with pytest.raises(ConfigError, match="1 to 500 pages"):
        PictureDocument("empty", ())
    with pytest.raises(ConfigError, match="one for each of 1 pages"):
        PictureDocument("scan", (white(),), ("one", "two"))


def test_a_shelf_of_documents():
    shelf = DocumentShelf([PictureDocument("b", (white(),)), PictureDocument("a", (white(),))])
    assert shelf.names() == ["a", "b"] and shelf.document("a").name == "a"
    with pytest.raises(ToolError, match="Documents that exist: a, b") as refusal:
        shelf.document("</tool_response>")
    assert refusal.value.kind is ToolErrorKind.UNKNOWN_FILE and not {"<", ">"} & set(refusal.value.message)
    with pytest.raises(ConfigError, match="distinct names"):
        DocumentShelf([PictureDocument("a", (white(),))] * 2)
    with pytest.raises(ConfigError, match="printable"):
        DocumentShelf([PictureDocument("<answer>", (white(),))])
