"""The limits of tools in docs/question-answering.md are those of the code."""

import re
from pathlib import Path

from vlm_envs.tools import data_files, pdf_documents, tool_memory, tool_registry

PAGE = (Path(__file__).parents[4] / "docs" / "question-answering.md").read_text(encoding="utf-8")


def test_python_on_the_page_runs(capsys):
    (block,) = re.findall(r"```python\n([^`]*ToolRegistry.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(block, "docs/question-answering.md", "exec"), {"__name__": "document"})
    assert '"name": "image_zoom_in_tool"' in capsys.readouterr().out


def test_limits_on_the_page_are_those_of_the_code():
    text = PAGE.replace("\n", " ")
    assert "80 million declared pixels" in text and data_files.MAX_IMAGE_PIXELS == 80_000_000
    assert "256 MiB" in text and data_files.MAX_FILE_BYTES == 256 * 2**20
    store = tool_memory.ImageStore()
    assert "64, 256 million pixels" in text and (store.max_images, store.max_total_pixels) == (64, 256_000_000)
    texts = tool_memory.TextStore()
    assert "64, 4 million characters" in text and (texts.max_texts, texts.max_total_chars) == (64, 4_000_000)
    assert (
        "500 pages, 128 MiB" in text and pdf_documents.MAX_PAGES == 500 and pdf_documents.MAX_PDF_BYTES == 128 * 2**20
    )
    assert "100 000 characters" in text and pdf_documents.MAX_PAGE_CHARS == 100_000
    limits = (tool_registry.MAX_JSON_CHARS, tool_registry.MAX_JSON_DEPTH, tool_registry.MAX_NUMBER_CHARS)
    assert "20 000 characters, 16 levels and 40 characters" in text and limits == (20_000, 16, 40)
