"""Policies: rules with a number in each, and the question that the number answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlm_envs.content.drawing import pick_several
from vlm_envs.content.reports.subjects import Policy


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule whose number is drawn.

    Attributes:
        text: With `{n}` for the number.
        question: What the number answers.
        low: Smallest number.
        high: Greatest number.
        step: Between two possible numbers.
    """

    text: str
    question: str
    low: int
    high: int
    step: int = 1


TOPICS: dict[str, tuple[_Rule, ...]] = {
    "Travel": (
        _Rule("Journeys of less than {n} kilometres are made by rail or bus wherever a connection exists.",
              "Below how many kilometres must a journey be made by rail or bus?", 120, 600, 20),
        _Rule("A night in a hotel is paid up to {n} crowns, breakfast included.",
              "Up to how many crowns is a night in a hotel paid?", 80, 240, 5),
        _Rule("Claims for travel are handed in within {n} days of the return.",
              "Within how many days of the return must claims for travel be handed in?", 10, 60),
    ),
    "Annual leave": (
        _Rule("Up to {n} days of leave may be carried over into the next year.",
              "How many days of leave may be carried over into the next year?", 3, 15),
        _Rule("Leave of more than two weeks is asked for at least {n} weeks ahead.",
              "How many weeks ahead must leave of more than two weeks be asked for?", 4, 16),
        _Rule("After ten years of service everybody has {n} additional days of leave.",
              "How many additional days of leave does everybody have after ten years of service?", 2, 12),
    ),
    "Record keeping": (
        _Rule("Signed contracts are kept for {n} years after they have ended.",
              "For how many years after their end are signed contracts kept?", 5, 30),
        _Rule("Recordings of telephone calls are deleted after {n} days.",
              "After how many days are recordings of telephone calls deleted?", 14, 120),
        _Rule("Paper files are scanned within {n} working days of their arrival.",
              "Within how many working days of their arrival are paper files scanned?", 2, 20),
    ),
    "Purchasing": (
        _Rule("Three offers are obtained for every purchase above {n} crowns.",
              "Above how many crowns must three offers be obtained for a purchase?", 1500, 9500, 250),
        _Rule("Invoices are paid within {n} days if the goods are in order.",
              "Within how many days are invoices paid if the goods are in order?", 10, 60),
        _Rule("Framework agreements run for no longer than {n} months.",
              "For how many months at most do framework agreements run?", 18, 60, 3),
    ),
    "Working from home": (
        _Rule("Staff may work from home on up to {n} days a month.",
              "On how many days a month may staff work from home?", 4, 14),
        _Rule("A grant of {n} crowns is paid once for a desk and a lamp.",
              "How many crowns does the grant for a desk and a lamp amount to?", 150, 900, 25),
        _Rule("Whoever works from home can be reached by telephone within {n} minutes.",
              "Within how many minutes must whoever works from home be reachable by telephone?", 10, 55, 5),
    ),
    "Safety at work": (
        _Rule("Evacuation is practised every {n} weeks at every site.",
              "Every how many weeks is evacuation practised?", 6, 40),
        _Rule("Loads of more than {n} kilograms are lifted by two people or a machine.",
              "Above how many kilograms must a load be lifted by two people or a machine?", 12, 30),
        _Rule("Accidents are reported to the safety officer within {n} hours.",
              "Within how many hours are accidents reported to the safety officer?", 2, 48),
    ),
    "Gifts": (
        _Rule("Gifts worth more than {n} crowns are declined or handed to the compliance desk.",
              "Above how many crowns of worth must gifts be declined or handed on?", 15, 95, 5),
        _Rule("The list of gifts received is published every {n} months.",
              "Every how many months is the list of gifts received published?", 2, 18),
        _Rule("Invitations to meals are accepted at most {n} times a year from the same partner.",
              "How many times a year at most are invitations to meals accepted from the same partner?", 2, 9),
    ),
    "Passwords": (
        _Rule("A password has at least {n} characters.",
              "How many characters does a password have at least?", 9, 24),
        _Rule("After {n} failed attempts the account is locked until the help desk has been called.",
              "After how many failed attempts is an account locked?", 3, 12),
        _Rule("A screen that nobody uses locks itself after {n} minutes.",
              "After how many minutes does an unused screen lock itself?", 2, 20),
    ),
    "Company vehicles": (
        _Rule("Tyres are changed after {n} thousand kilometres at the latest.",
              "After how many thousand kilometres are tyres changed at the latest?", 20, 60),
        _Rule("Private use of a vehicle costs {n} crowns a month.",
              "How many crowns a month does the private use of a vehicle cost?", 60, 320, 10),
        _Rule("Vehicles are replaced after {n} years in service.",
              "After how many years in service are vehicles replaced?", 4, 14),
    ),
    "Visitors": (
        _Rule("Groups of visitors have at most {n} members for each guide.",
              "How many members does a group of visitors have at most for each guide?", 8, 26),
        _Rule("Visits are announced at the gate {n} hours ahead.",
              "How many hours ahead are visits announced at the gate?", 3, 72),
        _Rule("Visitors' badges that are lost cost {n} crowns.",
              "How many crowns does a lost visitor's badge cost?", 10, 75, 5),
    ),
}  # fmt: skip
"""Rules of each topic."""

_GENERAL = (
    "Exceptions are agreed in writing with the owner of this policy before they are made use of.",
    "Every team names one person who answers questions about these rules.",
    "Whoever joins the organisation is told of these rules in the first week.",
    "The rules apply to temporary staff and to contractors on the premises as well.",
    "Breaches are discussed with the line manager first and recorded without naming anyone.",
    "Proposals for better wording are welcome at any time and are collected until the next review.",
)
"""Rules without a number."""


def draw_policy(rng: np.random.Generator, number: int, topic: str, owner: str) -> Policy:
    """Returns a policy with numbers of its own.

    Args:
        rng: Chance.
        number: The policy's number.
        topic: A key of `TOPICS`.
        owner: Who keeps it.

    Returns:
        Rules with numbers and rules without, mixed.
    """
    written = []
    for rule in TOPICS[topic]:
        value = rule.low + rule.step * int(rng.integers((rule.high - rule.low) // rule.step + 1))
        written.append((rule.text.format(n=value), rule.question, str(value)))
    written += [(text, "", "") for text in pick_several(rng, _GENERAL, 3)]
    rules, questions, answers = zip(*pick_several(rng, written, len(written)), strict=True)
    return Policy(number=number, topic=topic, rules=rules, questions=questions, answers=answers, owner=owner)
