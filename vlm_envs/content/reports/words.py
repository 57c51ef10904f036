"""The words reports are made of: names of people, places and things. All invented; none is a real organisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
QUARTERS = ("Q1", "Q2", "Q3", "Q4")

REGIONS = (
    "Northern", "Coastal", "Highland", "Lakeside", "Southern", "Border", "Central", "Island", "Valley", "Eastern",
    "Western", "Moorland",
)  # fmt: skip
FIRST_NAMES = (
    "Adaeze", "Alma", "Anselm", "Beatriz", "Bram", "Celia", "Dario", "Edda", "Emil", "Farah", "Gideon", "Greta",
    "Hanno", "Ines", "Ivo", "Jonna", "Kasimir", "Kira", "Leif", "Lucinda", "Maren", "Mateo", "Nadia", "Nils",
    "Odette", "Oskar", "Petra", "Quentin", "Rosa", "Rufus", "Selma", "Silas", "Tamsin", "Theo", "Ursula", "Viktor",
    "Wanda", "Xenia", "Yusuf", "Zelda",
)  # fmt: skip
LAST_NAMES = (
    "Abara", "Ashdown", "Bellweather", "Brandt", "Calloway", "Castellan", "Dunmore", "Eklund", "Fairburn", "Falk",
    "Garrick", "Greenhalgh", "Hallam", "Ibarra", "Jessop", "Kessler", "Kowal", "Lindqvist", "Lockhart", "Marchetti",
    "Merrin", "Nakagawa", "Norwood", "Okafor", "Osterman", "Pell", "Prior", "Quill", "Ravenscroft", "Rossi",
    "Sandoval", "Stroud", "Tanager", "Thorne", "Ulrich", "Vance", "Voss", "Whitlock", "Yarrow", "Zeller",
)  # fmt: skip
TOWNS = (
    "Aldermoor", "Ashby Cross", "Barrowmere", "Birkholm", "Brackenford", "Calderwick", "Cresswater", "Dunhaven",
    "Eastmarch", "Ellerby", "Fennick", "Glenrath", "Gullhaven", "Harrowgate Mills", "Ironbridge Lea", "Kelford",
    "Kingsmere", "Larkhill", "Longstrand", "Maplewick", "Netherfold", "Oakhampton", "Penrose", "Quarrendale",
    "Ravensby", "Saltmarsh", "Silverdale", "Stonemouth", "Thornbury Vale", "Ullswick", "Westering", "Wrenfield",
)  # fmt: skip
SITES = (
    "Anchor Yard", "Beacon House", "Canal Works", "Dovecote", "Foundry Lane", "Granary", "Harbour Gate", "Juniper Park",
    "Limekiln", "Millrace", "Orchard Hall", "Quayside", "Sawmill", "Tollhouse", "Viaduct Row", "Weir Street",
)  # fmt: skip
PROJECTS = (
    "Amber", "Basalt", "Cobalt", "Drift", "Ember", "Falcon", "Glacier", "Heron", "Iris", "Jasper", "Kestrel", "Lantern",
    "Meridian", "Nettle", "Opal", "Pinnacle", "Quarry", "Raven", "Saffron", "Tundra", "Umber", "Vesper", "Willow",
    "Zephyr", "Bramble", "Cinder", "Harbinger", "Lodestar", "Monsoon", "Outrider", "Pendulum", "Rampart", "Sextant",
    "Tempest", "Waypoint", "Yardarm", "Almanac", "Breakwater", "Compass", "Fathom", "Headland", "Isobar", "Keystone",
)  # fmt: skip
DEPARTMENTS = (
    ("Logistics", "delivery requests"),
    ("Customer Care", "written enquiries"),
    ("Procurement", "purchase orders"),
    ("Facilities", "repair requests"),
    ("Information Systems", "support tickets"),
    ("Legal Affairs", "contract reviews"),
    ("Human Resources", "job applications"),
    ("Quality Assurance", "inspections"),
    ("Training", "course bookings"),
    ("Communications", "press enquiries"),
    ("Research", "laboratory tests"),
    ("Internal Audit", "audit findings"),
)
"""Departments, and what each one counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trade:
    """What an organisation does, as far as its reports count it.

    Attributes:
        kinds: What such an organisation is called.
        chapter: Title of the chapter about regions.
        lines: What is counted, as table rows name it.
        of: What stands before a line's name when it is counted, such as `tonnes of `.
        verb: What a region does with it.
        past: The same in the past.
        outlets: What a region opens.
    """

    kinds: tuple[str, ...]
    chapter: str
    lines: tuple[str, ...]
    of: str
    verb: str
    past: str
    outlets: str

    def counted(self, line: str) -> str:
        """Returns a line as a sentence counts it."""
        return self.of + line.lower()


TRADES = (
    Trade(
        kinds=("Housewares", "Trading Company", "Home Supplies"),
        chapter="Sales by region",
        lines=("Kettles", "Lamps", "Armchairs", "Mirrors", "Blankets", "Toasters", "Bookcases", "Clocks", "Rugs"),
        of="",
        verb="sell",
        past="sold",
        outlets="shops",
    ),
    Trade(
        kinds=("Library Network", "Reading Trust", "Public Libraries"),
        chapter="Lending by region",
        lines=("Novels", "Atlases", "Audio books", "Picture books", "Journals", "Scores", "Board games", "Films"),
        of="",
        verb="lend",
        past="lent",
        outlets="branches",
    ),
    Trade(
        kinds=("Growers' Cooperative", "Farm Produce", "Orchards"),
        chapter="Deliveries by region",
        lines=("Apples", "Barley", "Carrots", "Hops", "Onions", "Pears", "Potatoes", "Rye", "Walnuts"),
        of="tonnes of ",
        verb="deliver",
        past="delivered",
        outlets="depots",
    ),
    Trade(
        kinds=("Ferries", "Regional Railways", "Transit Authority"),
        chapter="Tickets by region",
        lines=("Day tickets", "Single tickets", "Season tickets", "Group tickets", "Student passes", "Bicycle tickets"),
        of="",
        verb="sell",
        past="sold",
        outlets="ticket offices",
    ),
)


def listing(items: Sequence[str], last: str = "and") -> str:
    """Returns `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def grouped(number: int) -> str:
    """Returns a number with thousands commas."""
    return f"{number:,}"
