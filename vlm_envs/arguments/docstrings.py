"""Docstrings as their source has them, read without importing what they describe."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util

from vlm_envs.errors import VLMEnvsError


def written_docstring(name: str) -> str:
    """Returns the docstring of the class or function `"module:name"` without its indentation.

    It is empty if there is none.
    """
    module, _, attribute = name.partition(":")
    for node in _statements(module):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for imported in node.names:
                if (imported.asname or imported.name) == attribute:
                    return written_docstring(f"{node.module}:{imported.name}")
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute:
            return ast.get_docstring(node) or ""
    return ""


def written_docstrings(module: str) -> dict[str, str]:
    """Returns the docstrings of a module's classes and functions by name, without their indentation."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in _statements(module)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def _statements(module: str) -> list[ast.stmt]:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, VLMEnvsError):
        return []
    source = spec.loader.get_source(module) if spec and isinstance(spec.loader, importlib.abc.InspectLoader) else None
    return ast.parse(source).body if source else []
