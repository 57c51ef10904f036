"""Reads the pages of a report as a person would and answers questions from them, without what they were made from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlm_envs.content.reports.composition import Page, Report
from vlm_envs.content.reports.report_contents import TOPICS
from vlm_envs.content.reports.report_pages import AtAGlance, Chart, Clauses, Heading, Paragraph, Table

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
PROJECT_COLUMNS = {"project_lead": 1, "project_budget": 2, "project_start": 3, "project_status": 4}


class NotThereError(LookupError):
    """Nothing of that kind is in the report."""


def answer(report: Report, template: str, terms: Sequence[str]) -> tuple[str, set[int]]:
    """Returns the answer and the pages (from 1) it stands on; raises where the report does not tell."""
    readers = (_regional, _department, _budget, _site, _tables, _policy, _front, _label, _across)
    for reader in readers:
        found = reader(report, template, list(terms))
        if found is not None:
            return found
    raise AssertionError(f"no reader for the template {template}")


def _only(found: list) -> object:
    if not found:
        raise NotThereError
    assert len(found) == 1, f"several answers: {found}"
    return found[0]


def _blocks(report: Report, kind: type) -> list[tuple[int, object]]:
    return [(n, b) for n, page in enumerate(report.pages, 1) for b in page.blocks if isinstance(b, kind)]


def _said(report: Report, pattern: str) -> tuple[str, set[int]]:
    found = [(m[1], {n}) for n, page in enumerate(report.pages, 1) for m in re.finditer(pattern, page.text)]
    return _only(found)


def _cell(report: Report, region: str, year: str, line: str, quarter: str) -> tuple[int, int]:
    """Returns the number in a cell and its page."""
    tables = [(n, t) for n, t in _blocks(report, Table) if f"of the {region} region in {year}," in t.caption]
    number, table = _only(tables)
    row = _only([row for row in table.rows if row[0].removesuffix(" *").lower() == line])
    return int(row[table.columns.index(quarter)].replace(",", "")), number


def _regional(report, template, terms):
    if template == "count":
        value, page = _cell(report, *terms)
        return str(value), {page}
    if template == "footnote":
        region, year, line, quarter = terms
        _, page = _cell(report, region, year, line, quarter)
        (table,) = [block for block in report.pages[page - 1].blocks if isinstance(block, Table)]
        assert [row[0] for row in table.rows if row[0].endswith("*")] == [f"{line.capitalize()} *"]
        (note,) = report.pages[page - 1].notes
        return re.search(rf"the {quarter} figure includes (\d+) ", note)[1], {page}
    if template == "manager":
        return _said(report, rf"In {terms[1]} the {terms[0]} region was led by ([^.]+)\.")
    if template == "outlets":
        return _said(report, rf"In {terms[1]} the {terms[0]} region was led by [^.]+\. It opened (\d+) new")
    return None


def _glance(report: Report, title: str, label: str) -> tuple[str, set[int]]:
    found = [
        (value, {n})
        for n, block in _blocks(report, AtAGlance)
        if report.pages[n - 1].title == title
        for name, value in block.entries
        if name == label
    ]
    return _only(found)


def _chart(report: Report, words: str) -> tuple[dict[str, int], int]:
    page, chart = _only([(n, c) for n, c in _blocks(report, Chart) if words in c.caption])
    return dict(zip(chart.labels, chart.values, strict=True)), page


def _extreme(values: dict[str, int], word: str) -> str:
    best = {"most": max, "fewest": min, "least": min}[word](values.values())
    return _only([name for name, value in values.items() if value == best])


def _department(report, template, terms):
    if template in ("head", "deputy", "seat"):
        return _glance(report, f"{terms[0]} department", template.capitalize())
    if template == "since":
        return _said(report, rf"The {terms[0]} department was set up in (\d+)\.")
    if template == "staff" and len(terms) == 1:
        return _said(report, rf"The {terms[0]} department was set up in \d+\. At the end of \d+ it had (\d+) staff")
    if template == "bar_value":
        values, page = _chart(report, f"received by {terms[0]},")
        if terms[2][:3] not in values:
            raise NotThereError
        return str(values[terms[2][:3]]), {page}
    if template in ("bar_most", "bar_fewest"):
        values, page = _chart(report, f"received by {terms[0]},")
        return _month(_extreme(values, template[4:])), {page}
    return None


def _month(short: str) -> str:
    return _only([month for month in MONTHS if month.startswith(short)])


def _budget(report, template, terms):
    if template in ("share", "largest_share"):
        shares, page = _chart(report, f"in the budget of {terms[0]}")
        if template == "share" and terms[1] not in shares:
            raise NotThereError
        return (str(shares[terms[1]]) if template == "share" else _extreme(shares, "most")), {page}
    if template == "approved_by":
        return _said(report, rf"The budget of {terms[0]} was approved in \w+ by ([^.]+) on behalf")
    if template == "approved_in":
        return _said(report, rf"The budget of {terms[0]} was approved in (\w+) by")
    return None


def _site(report, template, terms):
    title = ", ".join(terms)
    if template in ("line_most", "line_least"):
        values, page = _chart(report, f"used at {terms[0]} in {terms[1]}")
        return _month(_extreme(values, template[5:])), {page}
    if template == "warden":
        return _glance(report, title, "Warden")
    if template == "area":
        value, page = _glance(report, title, "Floor area")
        return value.removesuffix(" square metres"), page
    return None


def _row(report: Report, key: str, column: int) -> tuple[str, set[int]]:
    return _only([(row[column], {n}) for n, table in _blocks(report, Table) for row in table.rows if row[0] == key])


def _tables(report, template, terms):
    if template == "project_start":
        start, page = _row(report, terms[0], 3)
        return start.split()[0], page
    if template in PROJECT_COLUMNS:
        return _row(report, terms[0], PROJECT_COLUMNS[template])
    columns = {"spokesperson": 1, "elected": 2, "risk": 1, "watcher": 2}
    return _row(report, terms[0], columns[template]) if template in columns else None


def _policy(report, template, terms):
    pages = [
        (n, page)
        for n, page in enumerate(report.pages, 1)
        if re.fullmatch(rf"Policy \d+: {terms[0]}" if terms else "-", page.title, re.IGNORECASE)
    ]
    if template == "owner":
        number, page = _only(pages)
        return re.search(r"kept up to date by ([^,]+), who", page.text)[1], {number}
    if template == "rule":
        number, page = _only(pages)
        rules = [rule for rules in TOPICS.values() for rule in rules if rule.question.endswith(terms[1])]
        pattern = re.escape(_only(rules).text).replace(r"\{n\}", r"(\d+)")
        (clauses,) = [block for block in page.blocks if isinstance(block, Clauses)]
        return _only([m[1] for text in clauses.texts if (m := re.fullmatch(pattern, text))]), {number}
    return None


def _front(report, template, terms):
    patterns = {
        "founded": r"was founded in (\d+) and",
        "headquarters": r"headquarters in ([^.]+) ever since",
        "chair": r"\n([^,\n]+), chair of the board",
    }
    if template in patterns:
        return _said(report, patterns[template])
    if template == "term":
        found = []
        for number, page in enumerate(report.pages, 1):
            for heading, text in zip(page.blocks, page.blocks[1:], strict=False):
                is_entry = isinstance(heading, Heading) and isinstance(text, Paragraph)
                if is_entry and text.text.rstrip(".").lower() == terms[0].lower():
                    found.append((heading.text, {number}))
        return _only(found)
    return None


def _label(report, template, terms):
    if template not in ("person", "project", "risk"):
        return None
    found = [(page, n) for n, page in enumerate(report.pages, 1) if _names(page, terms[0])]
    page, number = _only(found)
    return page.label, {number}


def _names(page: Page, what: str) -> bool:
    return bool(re.search(rf"(^|[\s(]){what}($|[\s,.;)])", page.text, re.MULTILINE))


def _across(report, template, terms):
    kind, _, sum_or_difference = template.partition("_")
    entries = _entries(report, kind, terms)
    if entries is None:
        return None
    pages = {page for _, _, page in entries}
    if not sum_or_difference:
        word = next(term for term in terms if term in ("most", "fewest", "largest", "smallest", "larger", "smaller"))
        pick = max if word in ("most", "largest", "larger") else min
        best = pick(value for _, value, _ in entries)
        return _only([name for name, value, _ in entries if value == best]), pages
    (_, first, _), (_, second, _) = entries
    return str(first + second if sum_or_difference == "sum" else first - second), pages


def _entries(report, kind, terms):
    words = {"most", "fewest", "largest", "smallest", "larger", "smaller"}
    terms = [term for term in terms if term not in words]
    if kind == "regions":
        (year, line, quarter), names = terms[:3], terms[3:]
        return [(name, *_cell(report, name, year, line, quarter)) for name in names]
    if kind == "years":
        (region, line, quarter), names = terms[:3], terms[3:]
        return [(name, *_cell(report, region, name, line, quarter)) for name in names]
    single = {"staff": ("staff", lambda name: (name,)), "areas": ("area", lambda name: (name, terms[0]))}
    if kind in single:
        template, make = single[kind]
        return [(name, *_number(report, template, make(name))) for name in terms[1:]]
    if kind == "projects":
        return [(name, *_number(report, "project_budget", (name,))) for name in terms]
    return None


def _number(report, template, terms):
    value, pages = answer(report, template, terms)
    return int(value.replace(",", "")), _only(list(pages))
