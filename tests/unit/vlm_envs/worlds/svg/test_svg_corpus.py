"""A user's icons, as people keep them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from vlm_envs.errors import ConfigError
from vlm_envs.worlds.svg import svg_corpus
from vlm_envs.worlds.svg.svg_corpus import load_icons
from vlm_envs.worlds.svg.svg_markup import read_markup

ICONS = [f'<svg viewBox="0 0 64 64"><circle cx="{x}" cy="32" r="9"/></svg>' for x in range(9, 39)]
DOCTYPE = '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">'


def loaded(path: Path) -> list[str]:
    return sorted(markup for markups in load_icons(str(path)).values() for markup in markups)


def write_table(path: Path, icons: list[str], encoding: str = "utf-8") -> None:
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file).writerows([["Svg", "Filename"], *([icon, "a.svg"] for icon in icons)])


@pytest.mark.parametrize(
    "before",
    [
        "",
        "\ufeff",
        '<?xml version="1.0" encoding="UTF-8"?>\n',
        f"{DOCTYPE}\n",
        f"<?xml version='1.0'?><!-- Ed -->{DOCTYPE}",
    ],
)
def test_what_drawing_programs_write_before_a_drawing_is_left_out(tmp_path: Path, before: str) -> None:
    for number, icon in enumerate(ICONS):
        (tmp_path / f"{number}.{'svg' if number % 2 else 'SVG'}").write_text(before + icon, encoding="utf-8")
    assert loaded(tmp_path) == sorted(ICONS)
    assert all(read_markup(icon).tag == "svg" for icon in loaded(tmp_path))


def test_entities_are_not_left_out_so_they_are_refused_later(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text(f'<!DOCTYPE svg [<!ENTITY a "b">]>{ICONS[0]}')
    assert "ENTITY" in loaded(tmp_path)[0]


def test_folders_and_dangling_links_named_like_drawings_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text(ICONS[0])
    (tmp_path / "b.svg").mkdir()
    (tmp_path / "c.svg").symlink_to(tmp_path / "nowhere.svg")
    assert loaded(tmp_path) == ICONS[:1]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text(ICONS[0])
    (tmp_path / "broken.svg").write_bytes(b"\xff\xfe<svg")
    with pytest.raises(ConfigError, match=r"Cannot read .*broken\.svg"):
        load_icons(str(tmp_path))


def test_a_drawing_too_large_spoils_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(len(icon.encode()) for icon in ICONS)
    monkeypatch.setattr(svg_corpus, "MAX_BYTES", longest)
    large = "<svg>" + "x" * max(longest, csv.field_size_limit()) + "</svg>"  # more than a field of csv has by default
    write_table(tmp_path / "icons.CSV", [large, *ICONS], "utf-8-sig")
    limit = csv.field_size_limit()
    assert loaded(tmp_path / "icons.CSV") == sorted(ICONS)
    assert csv.field_size_limit() == limit


def test_json_lines_may_begin_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "icons.jsonl").write_text("\ufeff" + "\n".join(json.dumps({"svg": icon}) for icon in ICONS))
    assert loaded(tmp_path / "icons.jsonl") == sorted(ICONS)


@pytest.mark.parametrize("broken", ["{'Svg': 1}", "[1]"])
def test_a_broken_line_is_named(tmp_path: Path, broken: str) -> None:
    (tmp_path / "icons.jsonl").write_text(json.dumps({"svg": ICONS[0]}) + f"\n\n{broken}\n")
    with pytest.raises(ConfigError, match=r"icons\.jsonl', line 3: expected a JSON object; got .*\. Correct the row"):
        load_icons(str(tmp_path / "icons.jsonl"))


def test_a_copy_of_the_papers_data_is_a_folder_of_parquet_tables(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="parquet needs pyarrow: pip install 'vlm-envs[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "data").mkdir()
    for number, icons in enumerate((ICONS[:10], ICONS[10:])):
        table = pyarrow.table({"Filename": [f"{i}.svg" for i in range(len(icons))], "Svg": icons})
        parquet.write_table(table, tmp_path / "data" / f"train-0000{number}-of-00002.parquet")
    assert loaded(tmp_path) == sorted(ICONS)


@pytest.mark.parametrize("path", [3, None, "", " "])
def test_what_is_no_path_is_explained(path: object) -> None:
    with pytest.raises(ConfigError, match="data must be a path"):
        load_icons(path)  # type: ignore[arg-type]
