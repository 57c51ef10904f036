"""What a single page tells: every fact as a question, its answer and a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from vlm_envs.content.reports import subjects
from vlm_envs.content.reports.contents import Organisation
from vlm_envs.content.reports.questions.asked import Asked, count_key, exact_key, name_key, phrase_key, reading_key
from vlm_envs.content.reports.words import MONTHS, QUARTERS, grouped
from vlm_envs.responses.answers import AnswerKey

TABLE, CHART, TEXT = "table_lookup", "chart_reading", "text_fact"

_Row = tuple[str, str, AnswerKey, str]


@singledispatch
def facts_of(subject: subjects.Subject, organisation: Organisation) -> Iterator[Asked]:
    """Yields what can be asked about a subject from its own page alone.

    Args:
        subject: What a page is about. It need not be in any report: questions about one that is not have no answer.
        organisation: Who reports.

    Yields:
        Questions whose answers no other page of a report tells, without `pages`; none about a `Front`.
    """
    yield from ()


def _facts(category: str, terms: tuple[str, ...], *rows: _Row) -> Iterator[Asked]:
    """Yields facts of one category about the same terms, each a row of template, question, key and sentence."""
    for template, question, key, sentence in rows:
        yield Asked(category=category, template=template, question=question, key=key, facts=sentence, terms=terms)


@facts_of.register
def _letter(letter: subjects.Letter, organisation: Organisation) -> Iterator[Asked]:
    name = organisation.name
    return _facts(
        TEXT, (name,),
        ("founded", f"In which year was {name} founded?", count_year(letter.founded),
         f"{name} was founded in {letter.founded}."),
        ("headquarters", f"In which town does {name} have its headquarters?", name_key(letter.town),
         f"{name} is based in {letter.town}."),
        ("chair", f"Who chairs the board of {name}?", name_key(letter.chair), f"{name} is chaired by {letter.chair}."),
    )  # fmt: skip


def count_year(year: int) -> AnswerKey:
    """Returns the key of a year."""
    return exact_key(str(year), f"in {year}")


@facts_of.register
def _region_year(subject: subjects.RegionYear, organisation: Organisation) -> Iterator[Asked]:
    trade, region, year = organisation.trade, subject.region, str(subject.year)
    where = f"the {region} region"
    for line, counts in zip(subject.lines, subject.counts, strict=True):
        counted = trade.counted(line)
        for quarter, count in zip(QUARTERS, counts, strict=True):
            yield from _facts(
                TABLE, (region, year, line.lower(), quarter),
                ("count", f"How many {counted} did {where} {trade.verb} in {quarter} {year}?",
                 count_key(count, unit_words(organisation, line)),
                 f"In {quarter} {year} {where} {trade.past} {grouped(count)} {counted}."),
            )  # fmt: skip
    noted, quarter = subject.lines[subject.noted], QUARTERS[subject.noted_quarter]
    counted = trade.counted(noted)
    yield from _facts(
        TEXT, (region, year, noted.lower(), quarter),
        ("footnote",
         f"How many {counted} of the quarter before are included in the {quarter} {year} figure of {where}?",
         count_key(subject.corrected, unit_words(organisation, noted)),
         f"A footnote says that the {quarter} {year} figure of {where} includes {subject.corrected} {counted} "
         "of the quarter before."),
    )  # fmt: skip
    yield from _facts(
        TEXT, (region, year),
        ("manager", f"Who led {where} in {year}?", name_key(subject.manager),
         f"In {year} {where} was led by {subject.manager}."),
        ("outlets", f"How many new {trade.outlets} did {where} open in {year}?",
         count_key(subject.new_outlets, (trade.outlets, f"new {trade.outlets}")),
         f"In {year} {where} opened {subject.new_outlets} new {trade.outlets}."),
    )  # fmt: skip


def unit_words(organisation: Organisation, line: str) -> tuple[str, ...]:
    """Returns what may follow a count of a line in an answer."""
    counted = organisation.trade.counted(line)
    return (counted, "tonnes") if organisation.trade.of else (counted,)


@facts_of.register
def _department(subject: subjects.Department, organisation: Organisation) -> Iterator[Asked]:
    name, counted, year = subject.name, subject.counted, organisation.years[-1]
    for month, value in zip(subject.months, subject.values, strict=True):
        yield from _facts(
            CHART, (name, str(year), month),
            ("bar_value", f"How many {counted} did the {name} department receive in {month} {year}?",
             reading_key(value), f"In {month} {year} the {name} department received {grouped(value)} {counted}."),
        )  # fmt: skip
    for word, extreme in (("most", max), ("fewest", min)):
        month = subject.months[subject.values.index(extreme(subject.values))]
        yield from _facts(
            CHART, (name, str(year)),
            (f"bar_{word}",
             f"Of the months that the report shows for {year}, in which did the {name} department receive the "
             f"{word} {counted}?",
             month_key(month, year),
             f"Of the months shown for {year}, the {name} department received the {word} {counted} in {month}."),
        )  # fmt: skip
    yield from _facts(
        TEXT, (name,),
        ("head", f"Who heads the {name} department?", name_key(subject.head),
         f"The {name} department is headed by {subject.head}."),
        ("deputy", f"Who is the deputy head of the {name} department?", name_key(subject.deputy),
         f"The {name} department has {subject.deputy} as deputy head."),
        ("seat", f"In which town does the {name} department have its seat?", name_key(subject.town),
         f"The {name} department has its seat in {subject.town}."),
        ("since", f"In which year was the {name} department set up?", count_year(subject.since),
         f"The {name} department was set up in {subject.since}."),
        ("staff", f"How many staff did the {name} department have at the end of {year}?",
         count_key(subject.num_people, ("staff", "people", "employees")),
         f"The {name} department had {subject.num_people} staff at the end of {year}."),
    )  # fmt: skip


def month_key(month: str, year: int) -> AnswerKey:
    """Returns the key of a month."""
    return exact_key(month, month[:3], f"{month} {year}", f"{month[:3]} {year}", f"in {month}")


@facts_of.register
def _budget_year(subject: subjects.BudgetYear, organisation: Organisation) -> Iterator[Asked]:
    year = str(subject.year)
    for name, share in zip(subject.names, subject.shares, strict=True):
        yield from _facts(
            CHART, (year, name),
            ("share", f"What percentage of the budget of {year} went to the {name} department?", reading_key(share),
             f"{share} % of the budget of {year} went to the {name} department."),
        )  # fmt: skip
    largest = max(subject.shares)
    if subject.shares.count(largest) == 1:
        name = subject.names[subject.shares.index(largest)]
        yield from _facts(
            CHART, (year,),
            ("largest_share", f"Which department had the largest share of the budget of {year}?",
             exact_key(name, f"{name} department", f"the {name} department"),
             f"The {name} department had the largest share of the budget of {year}."),
        )  # fmt: skip
    yield from _facts(
        TEXT, (year,),
        ("approved_by", f"Who approved the budget of {year}?", name_key(subject.approved_by),
         f"The budget of {year} was approved by {subject.approved_by}."),
        ("approved_in", f"In which month was the budget of {year} approved?", month_key(subject.month, subject.year),
         f"The budget of {year} was approved in {subject.month}."),
    )  # fmt: skip


@facts_of.register
def _site_year(subject: subjects.SiteYear, organisation: Organisation) -> Iterator[Asked]:
    site, year = subject.site, str(subject.year)
    for word, extreme in (("most", max), ("least", min)):
        month = MONTHS[subject.usage_mwh.index(extreme(subject.usage_mwh))]
        yield from _facts(
            CHART, (site, year),
            (f"line_{word}", f"In which month of {year} was the {word} electricity used at {site}?",
             month_key(month, subject.year), f"In {year} the {word} electricity was used at {site} in {month}."),
        )  # fmt: skip
    yield from _facts(
        TEXT, (site, year),
        ("warden", f"Who was the warden of {site} in {year}?", name_key(subject.warden),
         f"In {year} the warden of {site} was {subject.warden}."),
        ("area", f"What floor area, in square metres, did {site} have in {year}?",
         count_key(subject.floor_area_m2, ("square metres", "m²", "m2", "sqm")),
         f"In {year} {site} had a floor area of {grouped(subject.floor_area_m2)} square metres."),
    )  # fmt: skip


@facts_of.register
def _projects(subject: subjects.ProjectList, organisation: Organisation) -> Iterator[Asked]:
    for project in subject.projects:
        name = project.name
        month, _, _ = project.start.partition(" ")
        yield from _facts(
            TABLE, (name,),
            ("project_budget", f"What is the budget of project {name}, in thousand crowns?",
             count_key(project.budget, ("thousand crowns", "thousand")),
             f"Project {name} has a budget of {grouped(project.budget)} thousand crowns."),
            ("project_lead", f"Who leads project {name}?", name_key(project.lead),
             f"Project {name} is led by {project.lead}."),
            ("project_status", f"What is the status of project {name}?", exact_key(project.status),
             f"Project {name} is {project.status}."),
            ("project_start", f"In which month did project {name} begin?", month_key(month, subject.year),
             f"Project {name} began in {project.start}."),
        )  # fmt: skip


@facts_of.register
def _policy(subject: subjects.Policy, organisation: Organisation) -> Iterator[Asked]:
    topic = subject.topic.lower()
    for rule, question, answer in zip(subject.rules, subject.questions, subject.answers, strict=True):
        if question:
            asked = f"According to the policy on {topic}: {question[0].lower()}{question[1:]}"
            said = f"The policy on {topic} says: {rule}"
            yield from _facts(TEXT, (topic, question[1:]), ("rule", asked, count_key(int(answer)), said))
    yield from _facts(
        TEXT, (topic,),
        ("owner", f"Who keeps the policy on {topic} up to date?", name_key(subject.owner),
         f"The policy on {topic} is kept up to date by {subject.owner}."),
    )  # fmt: skip


@facts_of.register
def _board(subject: subjects.Board, organisation: Organisation) -> Iterator[Asked]:
    for name, committee, since in subject.members:
        yield from _facts(
            TABLE, (committee,),
            ("spokesperson", f"Who is the spokesperson of the {committee} committee?", name_key(name),
             f"The spokesperson of the {committee} committee is {name}."),
            ("elected", f"In which year was the spokesperson of the {committee} committee first elected?",
             count_year(since), f"The spokesperson of the {committee} committee was first elected in {since}."),
        )  # fmt: skip


@facts_of.register
def _risks(subject: subjects.Risks, organisation: Organisation) -> Iterator[Asked]:
    for code, text, owner, _ in subject.entries:
        yield from _facts(
            TABLE, (code,),
            ("watcher", f"Who watches risk {code}?", name_key(owner), f"Risk {code} is watched by {owner}."),
            ("risk", f"Which risk has the code {code}?", phrase_key(text), f"Risk {code} is this: {text}."),
        )  # fmt: skip


@facts_of.register
def _glossary(subject: subjects.Glossary, organisation: Organisation) -> Iterator[Asked]:
    for term, meaning in subject.terms:
        yield from _facts(
            TEXT, (meaning,),
            ("term", f'Which term does the glossary explain as "{meaning}"?', name_key(term),
             f"The glossary explains {term.lower()} as {meaning}."),
        )  # fmt: skip
