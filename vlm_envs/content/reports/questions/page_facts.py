"""What a single page tells: every fact as a question, its answer and a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vlm_envs.content.reports.contents import Organisation
from vlm_envs.content.reports.questions.asked import count_key, exact_key, name_key, reading_key
from vlm_envs.content.reports.subjects import (
    Board,
    BudgetYear,
    Department,
    Front,
    Glossary,
    Letter,
    Policy,
    ProjectList,
    RegionYear,
    Risks,
    SiteYear,
    Subject,
)
from vlm_envs.content.reports.words import MONTHS, QUARTERS, grouped
from vlm_envs.responses.answers import AnswerKey

TABLE, CHART, TEXT = "table_lookup", "chart_reading", "text_fact"


@dataclass(frozen=True, kw_only=True, slots=True)
class PageFact:
    """A fact of one page; the attributes are those of `Asked`."""

    category: str
    template: str
    question: str
    key: AnswerKey
    sentence: str
    terms: tuple[str, ...]


def facts_of(subject: Subject, organisation: Organisation) -> Iterator[PageFact]:
    """Yields what can be asked about a subject from its own page alone.

    Args:
        subject: What a page is about. It need not be in any report: questions about one that is not have no answer.
        organisation: Who reports.

    Yields:
        Facts that no other page of a report tells.
    """
    match subject:
        case Letter():
            yield from _letter(subject, organisation)
        case RegionYear():
            yield from _region_year(subject, organisation)
        case Department():
            yield from _department(subject, organisation.years[-1])
        case BudgetYear():
            yield from _budget_year(subject)
        case SiteYear():
            yield from _site_year(subject)
        case ProjectList():
            yield from _projects(subject)
        case Policy():
            yield from _policy(subject)
        case Board():
            yield from _board(subject)
        case Risks():
            yield from _risks(subject)
        case Glossary():
            yield from _glossary(subject)
        case Front():
            return


def _letter(letter: Letter, organisation: Organisation) -> Iterator[PageFact]:
    name = organisation.name
    facts = (
        ("founded", f"In which year was {name} founded?", count_year(letter.founded), f"founded in {letter.founded}"),
        (
            "headquarters",
            f"In which town does {name} have its headquarters?",
            name_key(letter.town),
            f"based in {letter.town}",
        ),
        ("chair", f"Who chairs the board of {name}?", name_key(letter.chair), f"chaired by {letter.chair}"),
    )
    for template, question, key, said in facts:
        yield PageFact(
            category=TEXT,
            template=template,
            question=question,
            key=key,
            sentence=f"{name} is {said}." if template != "founded" else f"{name} was {said}.",
            terms=(name,),
        )


def count_year(year: int) -> AnswerKey:
    """Returns the key of a year."""
    return exact_key(str(year), f"in {year}")


def _region_year(subject: RegionYear, organisation: Organisation) -> Iterator[PageFact]:
    trade, region, year = organisation.trade, subject.region, str(subject.year)
    where = f"the {region} region"
    for line, counts in zip(subject.lines, subject.counts, strict=True):
        counted = trade.counted(line)
        for quarter, count in zip(QUARTERS, counts, strict=True):
            yield PageFact(
                category=TABLE,
                template="count",
                question=f"How many {counted} did {where} {trade.verb} in {quarter} {year}?",
                key=count_key(count, unit_words(organisation, line)),
                sentence=f"In {quarter} {year} {where} {trade.past} {grouped(count)} {counted}.",
                terms=(region, year, line.lower(), quarter),
            )
    noted, quarter = subject.lines[subject.noted], QUARTERS[subject.noted_quarter]
    counted = trade.counted(noted)
    yield PageFact(
        category=TEXT,
        template="footnote",
        question=f"How many {counted} of the quarter before are included in the {quarter} {year} figure of {where}?",
        key=count_key(subject.corrected, unit_words(organisation, noted)),
        sentence=f"A footnote says that the {quarter} {year} figure of {where} includes {subject.corrected} {counted} "
        "of the quarter before.",
        terms=(region, year, noted.lower(), quarter),
    )
    yield PageFact(
        category=TEXT,
        template="manager",
        question=f"Who led {where} in {year}?",
        key=name_key(subject.manager),
        sentence=f"In {year} {where} was led by {subject.manager}.",
        terms=(region, year),
    )
    yield PageFact(
        category=TEXT,
        template="outlets",
        question=f"How many new {trade.outlets} did {where} open in {year}?",
        key=count_key(subject.new_outlets, (trade.outlets, f"new {trade.outlets}")),
        sentence=f"In {year} {where} opened {subject.new_outlets} new {trade.outlets}.",
        terms=(region, year),
    )


def unit_words(organisation: Organisation, line: str) -> tuple[str, ...]:
    """Returns what may follow a count of a line in an answer."""
    counted = organisation.trade.counted(line)
    return (counted, "tonnes") if organisation.trade.of else (counted,)


def _department(subject: Department, year: int) -> Iterator[PageFact]:
    name, counted = subject.name, subject.counted
    for month, value in zip(subject.months, subject.values, strict=True):
        yield PageFact(
            category=CHART,
            template="bar_value",
            question=f"How many {counted} did the {name} department receive in {month} {year}?",
            key=reading_key(value),
            sentence=f"In {month} {year} the {name} department received {grouped(value)} {counted}.",
            terms=(name, str(year), month),
        )
    for word, extreme in (("most", max), ("fewest", min)):
        month = subject.months[subject.values.index(extreme(subject.values))]
        yield PageFact(
            category=CHART,
            template=f"bar_{word}",
            question=f"Of the months that the report shows for {year}, in which did the {name} department receive the "
            f"{word} {counted}?",
            key=month_key(month, year),
            sentence=f"Of the months shown for {year}, the {name} department received the {word} {counted} in {month}.",
            terms=(name, str(year)),
        )
    texts = (
        ("head", f"Who heads the {name} department?", name_key(subject.head), f"is headed by {subject.head}"),
        ("deputy", f"Who is the deputy head of the {name} department?", name_key(subject.deputy),
         f"has {subject.deputy} as deputy head"),
        ("seat", f"In which town does the {name} department have its seat?", name_key(subject.town),
         f"has its seat in {subject.town}"),
        ("since", f"In which year was the {name} department set up?", count_year(subject.since),
         f"was set up in {subject.since}"),
        ("staff", f"How many staff did the {name} department have at the end of {year}?",
         count_key(subject.num_people, ("staff", "people", "employees")),
         f"had {subject.num_people} staff at the end of {year}"),
    )  # fmt: skip
    for template, question, key, said in texts:
        yield PageFact(
            category=TEXT,
            template=template,
            question=question,
            key=key,
            sentence=f"The {name} department {said}.",
            terms=(name,),
        )


def month_key(month: str, year: int) -> AnswerKey:
    """Returns the key of a month."""
    return exact_key(month, month[:3], f"{month} {year}", f"{month[:3]} {year}", f"in {month}")


def _budget_year(subject: BudgetYear) -> Iterator[PageFact]:
    year = str(subject.year)
    for name, share in zip(subject.names, subject.shares, strict=True):
        yield PageFact(
            category=CHART,
            template="share",
            question=f"What percentage of the budget of {year} went to the {name} department?",
            key=reading_key(share),
            sentence=f"{share} % of the budget of {year} went to the {name} department.",
            terms=(year, name),
        )
    largest = max(subject.shares)
    if subject.shares.count(largest) == 1:
        name = subject.names[subject.shares.index(largest)]
        yield PageFact(
            category=CHART,
            template="largest_share",
            question=f"Which department had the largest share of the budget of {year}?",
            key=exact_key(name, f"{name} department", f"the {name} department"),
            sentence=f"The {name} department had the largest share of the budget of {year}.",
            terms=(year,),
        )
    yield PageFact(
        category=TEXT,
        template="approved_by",
        question=f"Who approved the budget of {year}?",
        key=name_key(subject.approved_by),
        sentence=f"The budget of {year} was approved by {subject.approved_by}.",
        terms=(year,),
    )
    yield PageFact(
        category=TEXT,
        template="approved_in",
        question=f"In which month was the budget of {year} approved?",
        key=month_key(subject.month, subject.year),
        sentence=f"The budget of {year} was approved in {subject.month}.",
        terms=(year,),
    )


def _site_year(subject: SiteYear) -> Iterator[PageFact]:
    site, year = subject.site, str(subject.year)
    for word, extreme in (("most", max), ("least", min)):
        month = MONTHS[subject.usage_mwh.index(extreme(subject.usage_mwh))]
        yield PageFact(
            category=CHART,
            template=f"line_{word}",
            question=f"In which month of {year} was the {word} electricity used at {site}?",
            key=month_key(month, subject.year),
            sentence=f"In {year} the {word} electricity was used at {site} in {month}.",
            terms=(site, year),
        )
    yield PageFact(
        category=TEXT,
        template="warden",
        question=f"Who was the warden of {site} in {year}?",
        key=name_key(subject.warden),
        sentence=f"In {year} the warden of {site} was {subject.warden}.",
        terms=(site, year),
    )
    yield PageFact(
        category=TEXT,
        template="area",
        question=f"What floor area, in square metres, did {site} have in {year}?",
        key=count_key(subject.floor_area_m2, ("square metres", "m²", "m2", "sqm")),
        sentence=f"In {year} {site} had a floor area of {grouped(subject.floor_area_m2)} square metres.",
        terms=(site, year),
    )


def _projects(subject: ProjectList) -> Iterator[PageFact]:
    for project in subject.projects:
        name = f"project {project.name}"
        month, _, _ = project.start.partition(" ")
        facts = (
            ("budget", f"What is the budget of {name}, in thousand crowns?",
             count_key(project.budget, ("thousand crowns", "thousand")),
             f"has a budget of {grouped(project.budget)} thousand crowns"),
            ("lead", f"Who leads {name}?", name_key(project.lead), f"is led by {project.lead}"),
            ("status", f"What is the status of {name}?", exact_key(project.status), f"is {project.status}"),
            ("start", f"In which month did {name} begin?", month_key(month, subject.year), f"began in {project.start}"),
        )  # fmt: skip
        for template, question, key, said in facts:
            yield PageFact(
                category=TABLE,
                template=f"project_{template}",
                question=question,
                key=key,
                sentence=f"{name[0].upper()}{name[1:]} {said}.",
                terms=(project.name,),
            )


def _policy(subject: Policy) -> Iterator[PageFact]:
    topic = subject.topic.lower()
    for rule, question, answer in zip(subject.rules, subject.questions, subject.answers, strict=True):
        if question:
            yield PageFact(
                category=TEXT,
                template="rule",
                question=f"According to the policy on {topic}: {question[0].lower()}{question[1:]}",
                key=count_key(int(answer)),
                sentence=f"The policy on {topic} says: {rule}",
                terms=(topic, question[1:]),
            )
    yield PageFact(
        category=TEXT,
        template="owner",
        question=f"Who keeps the policy on {topic} up to date?",
        key=name_key(subject.owner),
        sentence=f"The policy on {topic} is kept up to date by {subject.owner}.",
        terms=(topic,),
    )


def _board(subject: Board) -> Iterator[PageFact]:
    for name, committee, since in subject.members:
        yield PageFact(
            category=TABLE,
            template="spokesperson",
            question=f"Who is the spokesperson of the {committee} committee?",
            key=name_key(name),
            sentence=f"The spokesperson of the {committee} committee is {name}.",
            terms=(committee,),
        )
        yield PageFact(
            category=TABLE,
            template="elected",
            question=f"In which year was the spokesperson of the {committee} committee first elected?",
            key=count_year(since),
            sentence=f"The spokesperson of the {committee} committee was first elected in {since}.",
            terms=(committee,),
        )


def _risks(subject: Risks) -> Iterator[PageFact]:
    for code, text, owner, _ in subject.entries:
        yield PageFact(
            category=TABLE,
            template="watcher",
            question=f"Who watches risk {code}?",
            key=name_key(owner),
            sentence=f"Risk {code} is watched by {owner}.",
            terms=(code,),
        )
        yield PageFact(
            category=TABLE,
            template="risk",
            question=f"Which risk has the code {code}?",
            key=name_key(text),
            sentence=f"Risk {code} is this: {text}.",
            terms=(code,),
        )


def _glossary(subject: Glossary) -> Iterator[PageFact]:
    for term, meaning in subject.terms:
        yield PageFact(
            category=TEXT,
            template="term",
            question=f'Which term does the glossary explain as "{meaning}"?',
            key=name_key(term),
            sentence=f"The glossary explains {term.lower()} as {meaning}.",
            terms=(meaning,),
        )
