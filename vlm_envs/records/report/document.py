"""One HTML file that needs neither a server nor a network: what the report of a run and the page of a board are."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from vlm_envs.records.json_lines import replace_file
from vlm_envs.records.report.headline import written_p
from vlm_envs.records.report.values import short

HERE = Path(__file__).parent

EPISODE_SCRIPTS = tuple(HERE / name for name in ("browsing.js", "elements.js", "images.js", "turns.js"))
"""What chooses an episode and draws it; it reads the element `payload`, with the `images` that turns name."""


def document(
    template: Path,
    *,
    scripts: Sequence[Path],
    payload: Mapping[str, Any],
    styles: Sequence[Path] = (),
    filters: Mapping[str, Callable[..., Any]] | None = None,
    loads_files: bool = False,
    **values: Any,
) -> str:
    """Returns a page.

    Args:
        template: A template that extends `base.html.j2` of this folder: its blocks `title` and `body`.
        scripts: Files that become its one script; its policy lets no other run.
        payload: What they read from the element `payload`, ready for JSON.
        styles: Files after the common style.
        filters: The template's own, beside `short`, `percent` and `p_value`.
        loads_files: Whether its script may load scripts and images from files beside it.
        **values: The template's variables. Texts are escaped.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(short=short, percent=lambda value: short(value, "rate"), p_value=written_p)
    environment.filters.update(filters or {})
    script = _joined(scripts)
    return environment.get_template(template.name).render(
        style=Markup(_joined([HERE / "style.css", *styles])),
        script=Markup(script),
        script_hash=csp_hash(script),
        payload=script_json(payload),
        loads_files=loads_files,
        **values,
    )


def write_document(path: Path, html: str) -> None:
    """Writes a page at once; lone surrogates, which have no UTF-8 form, become question marks.

    They are in labels and configurations only: what models wrote is ASCII in the payload.
    """
    replace_file(path, html.encode("utf-8", errors="replace"))


def _joined(paths: Sequence[Path]) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in paths)


def script_json(value: Any) -> Markup:
    r"""Returns JSON that is safe inside a script element: `<`, `>` and `&` occur only as `\u` escapes."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def csp_hash(script: str) -> str:
    """Returns the hash by which a page's policy lets this script run and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
