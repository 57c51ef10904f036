"""Names of things in a home: which words are things, and which words mean the same one.

The list decides what counts as a claim about a thing that is not there; things that are there are always known,
by the types of the state. Types are compared as letters only, so that `GarbageCan`, "garbage can" and
"garbage_can" are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from judges.state_text.grid.vocabulary import words_of

_SYNONYMS = """
    sofa couch settee loveseat
    television tv tvset flatscreen
    garbagecan bin trashcan trashbin garbagebin rubbishbin wastebin wastebasket wastepaperbasket dustbin
    fridge refrigerator
    bathtub tub
    armchair recliner
    cabinet cupboard
    countertop counter worktop
    laptop notebookcomputer
    stove cooker oven stoveburner
    houseplant plant pottedplant
    bookshelf bookcase
    shelf shelvingunit shelving
    statue sculpture figurine
    sink basin washbasin sinkbasin
    wardrobe closet
    nightstand bedsidetable
    toilet lavatory
    rug carpet
    cellphone phone smartphone mobilephone
    remotecontrol tvremote
    teddybear teddy
    mug cup
    dresser chestofdrawers
    laundrybasket hamper laundryhamper
    rubberduck duck
    tablelamp desklamp
    floorlamp standinglamp
    painting artwork
    cushion pillow
"""
_OTHERS = """
    alarmclock apple bag ball banana baseballbat basket basketball bed bench blanket book boot bottle bowl box bread
    brush bucket candle chair clock coffeemachine coffeemaker coffeetable creditcard curtain desk diningtable
    dishwasher dogbed drawer dumbbell egg fan faucet footstool fork globe guitar jar jug kettle keyboard
    keychain knife ladder ladle lamp lettuce lightswitch microwave mirror monitor mug newspaper ottoman pan
    papertowel pen pencil peppershaker piano pitcher plate plunger poster pot potato printer radiator radio
    saltshaker shower showerhead sidetable soap soapbar soapbottle spatula speaker sponge spoon stool suitcase table
    teapot tennisracket tissuebox toaster toiletpaper tomato towel toy tray tvstand umbrella vacuumcleaner vase
    washingmachine wateringcan window winebottle
"""
_SAME_AS = {word: words.split()[0] for words in _SYNONYMS.strip().splitlines() for word in words.split()}
THINGS = frozenset(_SAME_AS) | words_of(_OTHERS)
"""Every known name of a thing, as letters only."""


def plain(name: str) -> str:
    """Returns a type or a phrase as lower-case letters only: `garbagecan` for `GarbageCan`."""
    return re.sub("[^a-z]", "", name.lower())


def singulars(word: str) -> tuple[str, ...]:
    """Returns a plain word and what it would be the plural of."""
    stems = (word.removesuffix("s"), word.removesuffix("es")) if len(word) > 3 and word.endswith("s") else ()
    return (word, *stems)


def is_name_of(claimed: str, actual: str) -> bool:
    """Returns whether a plain name may be said of a plain type: the same word, a synonym or a more general one.

    A desk lamp may be called a lamp, but a lamp no desk lamp.
    """
    claimed, actual = _SAME_AS.get(claimed, claimed), _SAME_AS.get(actual, actual)
    return claimed == actual or (claimed in THINGS and actual.endswith(claimed))


def known_name(words: Iterable[str], vocabulary: frozenset[str]) -> str | None:
    """Returns the thing that words name together, singular or plural, or None."""
    joined = "".join(words)
    return next((name for name in singulars(joined) if name in vocabulary), None)
