"""Questions about documents from a user's own folder."""

from vlm_envs.qa.datasets.documents.registry import DOCUMENT_KINDS, document_source

__all__ = ["DOCUMENT_KINDS", "document_source"]
