"""Reports as documents: values that know their pages, and draw them when somebody looks."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from vlm_envs.content.reports.composition import Report, compose_report
from vlm_envs.content.reports.numbering import PLAIN, Numbering
from vlm_envs.content.reports.rendering import render_pdf, text_layer
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.tools.pdf_documents import PAGE_LONG_SIDE_PX, PdfDocument, check_page_number
from vlm_envs.tools.pictures import Picture

MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Of rendered pages; the one unused longest is dropped. The last one is always kept."""


@functools.lru_cache(maxsize=64)
def report_of(num_pages: int, seed: int, numbering: Numbering) -> Report:
    """Returns the report of a recipe; the last few are kept."""
    return compose_report(num_pages, seed, numbering)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportDocument:
    """A report as tools see it; small, hashable, and not rendered before a page is looked at.

    Attributes:
        name: File name, such as `kelford_ferries_2019.pdf`.
        digest: Hash of what is printed, known without rendering.
        num_pages: How many pages.
        seed: What the report was generated from.
        numbering: How its pages are numbered.
    """

    name: str
    digest: str
    num_pages: int
    seed: int
    numbering: Numbering = PLAIN

    @classmethod
    def of(cls, num_pages: int, seed: int, numbering: Numbering = PLAIN) -> ReportDocument:
        """Returns the document of a recipe."""
        report = report_of(num_pages, seed, numbering)
        return cls(name=report.file_name, digest=report.digest, num_pages=num_pages, seed=seed, numbering=numbering)

    @property
    def report(self) -> Report:
        """What the document says."""
        return report_of(self.num_pages, self.seed, self.numbering)

    def page_text(self, number: int) -> str:
        """Returns the words of the text layer of a page, from 1; nothing is rendered for it.

        Raises:
            ToolError: `PAGE_OUT_OF_RANGE`.
        """
        check_page_number(self, number)
        return text_layer(self.report, number)

    def page_picture(self, number: int, long_side_px: int = PAGE_LONG_SIDE_PX) -> Picture:
        """Returns a page, from 1, whose longer side has `long_side_px` pixels.

        Raises:
            ToolError: `PAGE_OUT_OF_RANGE`.
            EngineUnavailableError: If a package of the extra `tools` is missing.
        """
        check_page_number(self, number)
        page, _ = _rendered.get((self.digest, number), lambda: _page(self, number))
        return page.page_picture(1, long_side_px)

    def pdf_bytes(self) -> bytes:
        """Returns the PDF file.

        Raises:
            EngineUnavailableError: If a package of the extra `tools` is missing.
        """
        return render_pdf(self.report)


_rendered: BoundedCache[tuple[PdfDocument, int]] = BoundedCache(
    MAX_CACHED_BYTES, size_of=lambda kept: kept[1], drop=lambda kept: kept[0].close()
)


def _page(document: ReportDocument, number: int) -> tuple[PdfDocument, int]:
    """Renders one page, and not the others: who searches looks at one or two."""
    content = render_pdf(document.report, numbers=(number,))
    return PdfDocument(document.name, content), len(content)
