"""One function for every kind of data about documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vlm_envs.errors import ConfigError, require_choice
from vlm_envs.qa.datasets.documents.mmlongbench import load_mmlongbench_doc
from vlm_envs.qa.datasets.documents.mp_docvqa import load_mp_docvqa
from vlm_envs.qa.datasets.documents.pdf_questions import load_pdf_folder
from vlm_envs.qa.datasets.documents.source import DocumentQuestions
from vlm_envs.qa.datasets.sharing import shared

DOCUMENT_KINDS: Mapping[str, Callable[..., DocumentQuestions]] = MappingProxyType(
    {
        "mp_docvqa": load_mp_docvqa,
        "mmlongbench_doc": load_mmlongbench_doc,
        "pdf_folder": load_pdf_folder,
    }
)
"""Kind to loader."""


def document_source(kind: str, folder: str | Path, **options: Any) -> DocumentQuestions:
    """Returns the questions of a user's own copy of a data set.

    Args:
        kind: `"mp_docvqa"`, `"mmlongbench_doc"`, or `"pdf_folder"` for any PDF files with a file of questions.
        folder: Where the copy is.
        **options: Of the loader: `split` for kinds whose data have no splits of their own; `is_benchmark=True` stands
            for `split="test"`, `is_benchmark=False` for `split=None`, which divides them by a hash of the document's
            name. Without either, `mmlongbench_doc` is all `test` and `pdf_folder` is divided.

    Returns:
        A source for `VLM/DocQA-v0`.

    Raises:
        ConfigError: If the kind or an option does not exist, a file is missing, or a row is broken.
    """
    loader = DOCUMENT_KINDS[require_choice("kind", kind, DOCUMENT_KINDS)]
    known = set(loader.__annotations__) - {"folder", "return"}
    is_benchmark = options.pop("is_benchmark", None)
    if is_benchmark is not None:
        if "split" not in known:
            raise ConfigError(
                f"{kind!r} has splits of its own, by its files; got is_benchmark={is_benchmark}. "
                "Leave is_benchmark out."
            )
        options.setdefault("split", "test" if is_benchmark else None)
    if unknown := sorted(set(options) - known):
        raise ConfigError(f"The kind {kind!r} has the options {sorted(known) or 'none'}; got {unknown}.")
    return shared(kind, folder, lambda: loader(folder, **options), *sorted(options.items()))
