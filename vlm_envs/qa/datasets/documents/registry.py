"""Every kind of data about documents, by the name that ids of its samples begin with."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from vlm_envs.qa.datasets.documents.mmlongbench import MMLONGBENCH_DOC
from vlm_envs.qa.datasets.documents.mp_docvqa import MP_DOCVQA
from vlm_envs.qa.datasets.documents.pdf_questions import PDF_FOLDER
from vlm_envs.qa.datasets.source import Dataset, opened

DOCUMENT_DATASETS: Mapping[str, Dataset] = {
    "mp_docvqa": MP_DOCVQA,
    "mmlongbench_doc": MMLONGBENCH_DOC,
    "pdf_folder": PDF_FOLDER,
}

document_source = functools.partial(opened, DOCUMENT_DATASETS)
"""Returns the questions of a user's copy of one of them; see `vlm_envs.qa.datasets.source.opened`."""
