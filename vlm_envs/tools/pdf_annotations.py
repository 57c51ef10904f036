"""Texts that a PDF page shows outside its text layer: values of form fields, and notes written onto the page."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

MAX_ANNOTATIONS = 2_000
"""Most annotations of a page that are looked at."""

_PASSWORD_FLAG = 1 << 13  # PDF 32000-1, table 228


def annotation_texts(page: Any) -> list[str]:
    """Returns the visible texts of a pypdfium2 page's form fields and free-text notes, in the order of the file.

    Text fields, lists, and combo boxes count; check boxes and buttons show no text. The document's `init_forms` comes
    before the page is loaded, or no field is found. The caller holds PDFium's lock.
    """
    pdfium = import_module("pypdfium2.raw")
    count = min(pdfium.FPDFPage_GetAnnotCount(page), MAX_ANNOTATIONS)
    texts = []
    for index in range(count):
        with _annotation(pdfium, page, index) as annotation:
            texts.append(_text(pdfium, page.formenv, annotation))
    return [text for text in texts if text.strip()]


@contextmanager
def _annotation(pdfium: Any, page: Any, index: int) -> Iterator[Any]:
    annotation = pdfium.FPDFPage_GetAnnot(page, index)
    try:
        yield annotation
    finally:
        if annotation:
            pdfium.FPDFPage_CloseAnnot(annotation)


def _text(pdfium: Any, form: Any, annotation: Any) -> str:
    """Returns the text that an annotation shows, or nothing."""
    if not annotation or pdfium.FPDFAnnot_GetFlags(annotation) & (
        pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
    ):
        return ""
    if pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_FREETEXT:
        return _string(lambda *room: pdfium.FPDFAnnot_GetStringValue(annotation, b"Contents", *room), pdfium)
    if form is None or pdfium.FPDFAnnot_GetFormFieldType(form, annotation) not in (
        pdfium.FPDF_FORMFIELD_TEXTFIELD,
        pdfium.FPDF_FORMFIELD_COMBOBOX,
        pdfium.FPDF_FORMFIELD_LISTBOX,
    ):
        return ""
    if pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD_FLAG:
        return ""
    return _string(lambda *room: pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, *room), pdfium)


def _string(read: Callable[..., int], pdfium: Any) -> str:
    """Returns what a function of PDFium writes into a buffer, whose size it returns, as UTF-16 that ends with 0."""
    num_bytes = read(None, 0)
    buffer = ctypes.create_string_buffer(num_bytes)
    read(ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)), num_bytes)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")
