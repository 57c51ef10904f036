"""Running text that holds no fact anybody is asked about, and that contradicts none."""

from __future__ import annotations

import numpy as np

from vlm_envs.content.drawing import pick_several

REGION = (
    "Demand was carried by returning customers, while the number of new ones stayed below what had been hoped for.",
    "The weather of the first weeks kept many people at home, which is felt in every line.",
    "Deliveries arrived on time throughout the year, so that shelves were seldom empty.",
    "Two neighbouring towns moved their market days, and the opening hours followed.",
    "A survey among visitors praised the staff and found fault with the parking space.",
    "The table counts what left the premises; what was ordered and not yet handed over appears in the next year.",
    "Prices were left unchanged in spite of higher costs of transport.",
    "Some of the movement between the quarters is owed to the date of the spring holidays.",
    "The region took part in the trial of the new planning method and will keep it.",
    "Road works on the main route made the third quarter harder than the plan had assumed.",
    "Stocks at the end of the year were of the usual size and in good order.",
    "The regional council was kept informed at four meetings, the minutes of which are public.",
)
PLANS = (
    "Two smaller premises are to be brought together under one roof, with no loss of opening hours.",
    "The entrance of the main building is being made free of steps.",
    "A second team for the evenings will be trained before the busy season begins.",
    "The contract for transport is to be put out to tender again.",
    "Customers will be able to see from home what is in stock.",
    "The oldest vans are to be replaced, one at a time, by electric ones.",
    "An exchange of staff with a neighbouring region has been agreed.",
    "The signs along the access roads will be renewed.",
)
DEPARTMENT = (
    "Most of the work reaches the department through the common entry form, the remainder by telephone.",
    "Three vacancies were filled from within, which kept knowledge in the house.",
    "The chart counts every case once, in the month in which it was opened.",
    "A new handbook describes each step and has shortened the time until newcomers work on their own.",
    "Cases that concern several departments are led by the one that heard of them first.",
    "The peak of the year came as expected and was met with overtime agreed in advance.",
    "Feedback is collected after each closed case and discussed once a month.",
    "The department shares its meeting rooms with its neighbours and has given up part of its archive.",
    "Savings on paper and postage were passed on to the training budget.",
    "Where cases stay open for long, the reason is in most instances a missing document.",
)
SITE = (
    "Electricity is read from the main meter on the last working day of each month.",
    "Heating is supplied by the district network and is not part of the chart.",
    "The lamps of the stairwells were replaced, and the ventilation now follows the number of people present.",
    "Visitors find the entrance on the side of the yard; the former gate serves deliveries only.",
    "The roof was inspected after the storms and needed small repairs.",
    "Noise from the neighbouring works was measured again and stayed within the limits.",
    "A plan for the renewal of the windows has been drawn up and waits for approval.",
    "Part of the ground floor is let to a nursery until its own building is ready.",
    "Waste is sorted into five kinds, and the contract for its collection was renewed.",
)
BUDGET = (
    "The shares follow from the plans that the departments handed in before the summer.",
    "Amounts that were not spent by the end of the year were returned to the common reserve.",
    "Departments that are not shown are paid for by those that use them and have no budget of their own.",
    "The chart leaves out buildings, which are paid for from a fund with its own accounts.",
    "A shift between departments needs the consent of both and is entered in the books within a week.",
    "The auditors looked at the division of shared costs and had no objection.",
    "Shares are rounded to whole percent.",
)
PROJECT = (
    "Budgets cover the whole life of a project and include the work of our own staff.",
    "A project counts as delayed when a milestone is missed by more than a month.",
    "Leads report to the steering group every six weeks on a single page.",
    "Projects that were merged are listed under the name that was kept.",
    "Lessons from finished projects are collected in a short note that everybody can read.",
    "No project may begin before its purpose can be said in one sentence.",
)
POLICY = (
    "This policy replaces all earlier rules on the same matter.",
    "It was discussed with the staff council and put into plain words after the first readings.",
    "The rules are few on purpose: what they leave open is decided by common sense and by those concerned.",
    "A copy hangs at every site, and the current wording is found on the internal pages.",
)
GOVERNANCE = (
    "The board met in every month but one and twice together with the committees.",
    "Members declare their other offices in writing, and the list is open to inspection.",
    "Each committee has one spokesperson, who is named in the table with the year of the first election.",
    "Minutes are approved at the following meeting and kept without a limit of time.",
)
RISK = (
    "Risks are assessed in spring and in autumn by those who would have to deal with them.",
    "The register names what may happen, who watches it and how likely it is held to be.",
    "Measures are described in a separate plan, which is confidential in parts.",
)
LETTER = (
    "The years behind us asked for patience, and I wish to thank all who had it with us.",
    "We have kept our promises where we could and said so early where we could not.",
    "What you find on the following pages was put together by many hands and checked by others.",
    "We report by region, since that is how our work is organised and how our readers know us.",
    "You will find more tables than adjectives, and that is intended.",
    "Behind each figure stand people who unlocked a door in the morning and were there when somebody came in.",
    "We have changed less than the talk of change suggests, and some of what stayed the same is our strength.",
    "Criticism reaches us in letters and at meetings, and it has made several chapters of this report better.",
    "The next years will bring a new planning system and, we hope, fewer forms.",
)


def paragraphs(rng: np.random.Generator, sentences: tuple[str, ...], *counts: int) -> list[str]:
    """Returns paragraphs of so many sentences each; no sentence comes twice.

    Args:
        rng: Chooses them.
        sentences: At least as many as all paragraphs have together.
        counts: Sentences of each paragraph.
    """
    chosen = iter(pick_several(rng, sentences, sum(counts)))
    return [" ".join(next(chosen) for _ in range(count)) for count in counts]
