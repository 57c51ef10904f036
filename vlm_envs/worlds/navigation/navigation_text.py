"""Text of Navigation: instructions, phrases that do not name the target, and states in words.

Both engines fill the same state dictionary, and every text is written from it alone, so text can be compared with
`info["state"]`.

Source: EmbodiedBench's navigation tasks, which VAGEN's environment uses, for the sets of instructions; VAGEN, Appendix
D.1, for the dictionary's keys, its four directions, and its order by distance. All sentences are ours; the paper shows
none for this world.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

import numpy as np

from vlm_envs.content.homes.home import Home, Thing, words_of
from vlm_envs.content.homes.home_space import direction_of
from vlm_envs.responses.formats import WITHOUT_SYMBOLS, structured_text
from vlm_envs.validation import require_choice


class Phrases(NamedTuple):
    """How one kind is circumscribed.

    Attributes:
        uses: What it is for.
        look: Its shape, with `{color}` for its colour.
    """

    uses: tuple[str, ...]
    look: str


PHRASES: Mapping[str, Phrases] = {
    "Sofa": Phrases(
        ("the seat where three people can watch a film side by side", "the long soft seat made for lounging"),
        "the wide {color} seat with two cushions and two armrests",
    ),
    "ArmChair": Phrases(
        ("the padded seat in which one person relaxes", "the soft single seat with a place for each elbow"),
        "the bulky {color} seat for one with thick armrests",
    ),
    "CoffeeTable": Phrases(
        ("the low surface for magazines and snacks in front of the couch", "what you rest your cup on while lounging"),
        "the low {color} slab on four short legs with a shelf beneath",
    ),
    "TVStand": Phrases(
        ("the low furniture meant to carry a screen", "what the film player and its cables are kept in"),
        "the long, low {color} cabinet with a black slot in its middle",
    ),
    "Bookshelf": Phrases(
        ("the place where all the novels are lined up", "the tall rack that stores reading matter"),
        "the tall {color} frame filled with rows of bright spines",
    ),
    "FloorLamp": Phrases(
        ("what lights up a corner of the room at night and reaches shoulder height", "the standing source of light"),
        "the thin dark pole with a {color} cone at its upper end",
    ),
    "HousePlant": Phrases(
        ("what has to be watered every few days", "the living thing that likes to stand in daylight"),
        "the bunch of long green leaves in a {color} pot",
    ),
    "Fridge": Phrases(
        ("where milk is kept from going sour", "the appliance that keeps leftovers cold"),
        "the tall {color} block with two doors and paper notes on its front",
    ),
    "Stove": Phrases(
        ("where a cake is baked", "the appliance with burners for frying eggs"),
        "the {color} cube with four dark rings on top and a dark pane in front",
    ),
    "CounterTop": Phrases(
        ("the surface at which vegetables are chopped", "the waist-high place for preparing meals"),
        "the {color} cupboard under a thick stone-grey slab",
    ),
    "Sink": Phrases(
        ("where one can wash dirty hands", "the place to fill a glass from the tap"),
        "the {color} cupboard with a blue basin and a metal tap on top",
    ),
    "DiningTable": Phrases(
        ("where the family gathers for supper", "the large surface that is laid with plates for dinner"),
        "the big {color} board on four stout legs",
    ),
    "Chair": Phrases(
        ("the upright wooden seat to pull up to a table", "the simple seat with a straight back"),
        "the slim {color} seat with two bars across its back",
    ),
    "GarbageCan": Phrases(
        ("where an empty wrapper should be thrown", "the container that takes the rubbish"),
        "the round {color} pail with a domed lid",
    ),
    "Bed": Phrases(
        ("where one lies down for the night", "the place to sleep"),
        "the big mattress under a {color} blanket with two white pillows",
    ),
    "Nightstand": Phrases(
        ("the little piece of furniture that holds reading glasses overnight", "what stands within reach of a sleeper"),
        "the small {color} cube with two drawers",
    ),
    "Wardrobe": Phrases(
        ("where coats and dresses hang", "the tall furniture with hangers inside"),
        "the tall {color} cabinet with two long doors and black handles",
    ),
    "Dresser": Phrases(
        ("the furniture in which folded shirts are put away", "where socks are sorted into drawers"),
        "the waist-high {color} chest with six drawers",
    ),
    "Desk": Phrases(
        ("the place to do homework", "the surface at which letters are written"),
        "the {color} board with a stack of drawers at one end",
    ),
    "Toilet": Phrases(
        ("what needs flushing after use", "the fixture one visits when nature calls"),
        "the {color} bowl with a water tank behind it",
    ),
    "Bathtub": Phrases(
        ("where one can soak in warm water", "the place for a long bath"),
        "the long {color} tank full of water and foam",
    ),
    "WashingMachine": Phrases(
        ("the appliance that cleans worn clothes", "what spins the laundry"),
        "the {color} cube with a round glass porthole",
    ),
    "Box": Phrases(
        ("what a parcel was delivered in", "the container to pack things in before moving house"),
        "the {color} carton with a pale strip of tape",
    ),
    "LaundryBasket": Phrases(
        ("where worn clothes wait to be cleaned", "the container for dirty socks"),
        "the slatted {color} tub with red and blue cloth on top",
    ),
    "BasketBall": Phrases(
        ("the toy to throw through a hoop", "what bounces on a sports court"),
        "the {color} globe with black seams lying on the floor",
    ),
    "Guitar": Phrases(
        ("the instrument with six strings", "what one strums to accompany a song"),
        "the {color} body like an eight with a long dark neck",
    ),
    "TeddyBear": Phrases(
        ("what a child hugs in order to fall asleep", "the stuffed animal"),
        "the soft {color} figure with round ears and a pale belly",
    ),
    "Statue": Phrases(
        ("the work of art that a sculptor made", "the piece of sculpture"),
        "the {color} figure with a raised arm on a square base",
    ),
    "Television": Phrases(
        ("what shows the evening news", "the screen for watching films"),
        "the wide flat {color} panel with a landscape glowing on it",
    ),
    "Laptop": Phrases(
        ("the machine to write emails on", "the computer that folds shut"),
        "the thin {color} slab folded open, with keys and a glowing pane",
    ),
    "Toaster": Phrases(
        ("what makes slices of bread crisp", "the small appliance that breakfast slices pop out of"),
        "the small {color} case with two slices sticking out of its top",
    ),
    "Microwave": Phrases(
        ("what warms up a plate of soup in a minute", "the appliance for heating leftovers quickly"),
        "the {color} case with a dark door and a green display",
    ),
    "Kettle": Phrases(
        ("what boils water for tea", "the vessel that whistles when it is hot"),
        "the {color} jug with a spout, a black lid and a black grip",
    ),
    "Pot": Phrases(
        ("what a stew is cooked in", "the vessel to boil pasta in"),
        "the wide {color} cylinder with a lid and two black grips",
    ),
    "Bowl": Phrases(
        ("what cereal is eaten from", "the open dish that a salad is tossed in"),
        "the open {color} dish that widens towards its rim",
    ),
    "Mug": Phrases(
        ("what hot coffee is drunk from", "the vessel with a handle that holds a hot drink"),
        "the small {color} cylinder with a handle and a brown drink in it",
    ),
    "Bottle": Phrases(
        ("what wine is poured out of", "the corked container of something to drink"),
        "the slim {color} flask with a pale label and a long neck",
    ),
    "Apple": Phrases(
        ("the healthy snack that grows on a tree", "the fruit"),
        "the small round {color} thing with a stalk and a leaf",
    ),
    "Bread": Phrases(
        ("what sandwiches are cut from", "what the baker sold us this morning"),
        "the long rounded {color}-brown thing with three pale cuts",
    ),
    "Vase": Phrases(
        ("what keeps cut flowers fresh", "the decoration that has blossoms in it"),
        "the curved {color} vessel with red, yellow and pink heads above it",
    ),
    "Candle": Phrases(
        ("what gives light when the power fails and drips wax", "the thing with a burning wick"),
        "the slender {color} stick with a small flame",
    ),
    "Book": Phrases(
        ("what one reads from page to page", "the stories to read aloud before bedtime"),
        "the two flat volumes, the upper one {color}, lying on each other",
    ),
    "TableLamp": Phrases(
        ("the small light to read by that stands on furniture", "what to switch on beside an open page in the dark"),
        "the short stem with a {color} cone on it, standing on furniture",
    ),
    "AlarmClock": Phrases(
        ("what rings to wake a sleeper", "the device that makes noise at seven in the morning"),
        "the round {color} dial on feet with two bells on top",
    ),
    "Globe": Phrases(
        ("what shows where the continents lie", "the model of the earth"),
        "the {color} sphere with green patches on a dark foot",
    ),
    "SoapBottle": Phrases(
        ("what one pumps into the palm before rinsing", "the dispenser for washing hands clean"),
        "the {color} block with a white pump on top",
    ),
    "RubberDuck": Phrases(
        ("the toy that floats in the bath", "what a child takes into the water to play with"),
        "the little {color} bird with an orange beak",
    ),
    "Painting": Phrases(
        ("the picture an artist made for the wall", "the framed work of art that hangs"),
        "the dark frame around a {color} landscape with a yellow sun",
    ),
    "Clock": Phrases(
        ("what hangs on the wall and tells the time", "where to look in order not to be late"),
        "the white disc with two hands and a {color} rim up on the wall",
    ),
    "Mirror": Phrases(
        ("where one checks one's hair", "what shows you your own face"),
        "the upright pane with white gleams in a {color} frame",
    ),
}
"""Every kind that may be a target."""

BASE = (
    "Go to the {name} and stay next to it.",
    "Find the {name} and stop close to it.",
    "Please walk up to the {name}.",
    "Navigate to the {name} and remain near it.",
    "I want you beside the {name}.",
    "Could you move over to the {name} and wait there?",
    "Look for the {name} and come to a halt in front of it.",
    "Bring yourself to the {name}.",
)
COMMON_SENSE = (
    "I am looking for {use}. Please go there and stay close.",
    "Take me to {use}.",
    "Find {use} and stop beside it.",
    "Could you show me {use}? Wait next to it.",
    "We need {use}. Move up to it.",
    "Go and stand near {use}.",
)
COMPLEX_INSTRUCTION = (
    "The guests come at six and nothing is ready. The {other} can wait until later; first go to the {name} and stay "
    "there.",
    "While I was tidying up near the {other} this morning, I remembered that somebody should look after the {name}. "
    "Please move close to it.",
    "My sister says that the {other} belongs to her, and I do not want to argue. What I would like is that you find "
    "the {name} and stop beside it.",
    "Yesterday we cleaned for two hours and forgot one spot. Do not bother with the {other}: it is the {name} that you "
    "should stand next to.",
    "It is raining, the phone keeps ringing and the {other} is where it always is. In the middle of all this, could "
    "you walk over to the {name}?",
    "I put my keys down somewhere, certainly not at the {other}. I believe they are by the {name}, so please go and "
    "wait there.",
)
VISUAL_APPEARANCE = (
    "Go to {look}.",
    "Find {look} and stay near it.",
    "Please move close to {look}.",
    "I would like you to stand beside {look}.",
    "Look around for {look} and stop in front of it.",
)
LONG_HORIZON = (
    "Leave this room, find the {name} in the {room} and stop close to it.",
    "The {name} is not here but in the {room}. Go through the doorway and walk up to it.",
    "First find your way into the {room}, then move to the {name} in there.",
    "Look for the way to the {room}; your goal is the {name} that you will find inside.",
    "Somewhere in the {room} is the {name}. Go there from here and stay beside it.",
)


INSTRUCTION_SETS: Mapping[str, tuple[str, ...]] = {
    "base": BASE,
    "common_sense": COMMON_SENSE,
    "complex_instruction": COMPLEX_INSTRUCTION,
    "visual_appearance": VISUAL_APPEARANCE,
    "long_horizon": LONG_HORIZON,
}
"""Sentence patterns of each set: by name; by use; by name among distractions; by looks; by name and room."""


def target_candidates(home: Home, instruction_set: str) -> list[int]:
    """Returns the things a sentence of a set can mean without doubt, by their numbers.

    A use fits all things of a kind, so there must be one of it; names and looks can add the colour, so there must be
    one of that kind and colour.
    """
    kinds = Counter(thing.kind for thing in home.things)
    painted = Counter((thing.kind, thing.color) for thing in home.things)
    return [
        index
        for index, thing in enumerate(home.things)
        if thing.kind in PHRASES
        and painted[thing.kind, thing.color] == 1
        and (kinds[thing.kind] == 1 or instruction_set != "common_sense")
    ]


def name_of(home: Home, thing: Thing) -> str:
    """Returns what a thing is called: its kind, with its colour where there are more of the kind."""
    name = words_of(thing.kind)
    is_only_one = sum(other.kind == thing.kind for other in home.things) == 1
    return name if is_only_one else f"{thing.color} {name}"


def write_instruction(rng: np.random.Generator, home: Home, target: int, instruction_set: str) -> str:
    """Returns a random sentence of a set that asks for a target, one of `target_candidates`, by its number."""
    thing = home.things[target]
    patterns, described = INSTRUCTION_SETS[instruction_set], PHRASES[thing.kind]
    pattern = patterns[int(rng.integers(len(patterns)))]
    others = sorted({words_of(other.kind) for other in home.things if other.kind != thing.kind})
    room = home.room_of_thing(thing)
    return pattern.format(
        name=name_of(home, thing),
        use=described.uses[int(rng.integers(len(described.uses)))],
        look=described.look.format(color=thing.color),
        other=others[int(rng.integers(len(others)))] if others else "door",
        room=home.rooms[room or 0].kind.replace("_", " "),
    )


DIRECTION_PHRASES: Mapping[str, str] = {
    "ahead": "ahead",
    "left": "to the left",
    "right": "to the right",
    "back": "behind",
}
"""The phrase for each direction of the dictionary."""


class SeenObject(TypedDict):
    """One visible object: its type, direction as in `DIRECTION_PHRASES`, and level distance in metres."""

    type: str
    direction_to_player: str
    distance_to_player: float


class NavigationStateDict(TypedDict):
    """A search as plain data; distances are level, in metres, rounded to centimetres."""

    target_obj_type: str
    target_distance_to_player: float
    target_direction_to_player: str
    visible_objects: list[SeenObject]


class Sighting(NamedTuple):
    """A thing of a type and where it lies, in metres ahead and to the right of the agent."""

    type: str
    ahead_m: float
    right_m: float


def state_dict(target: Sighting, visible: Iterable[Sighting]) -> NavigationStateDict:
    """Returns the state as plain data; what is visible, the target too if it is seen, nearest first, then by type."""
    objects = [_seen(sighting) for sighting in visible]
    objects.sort(key=lambda seen: (seen["distance_to_player"], seen["type"], seen["direction_to_player"]))
    described = _seen(target)
    return {
        "target_obj_type": target.type,
        "target_distance_to_player": described["distance_to_player"],
        "target_direction_to_player": described["direction_to_player"],
        "visible_objects": objects,
    }


def shortened(state: NavigationStateDict, max_visible: int) -> NavigationStateDict:
    """Returns a copy with the nearest visible objects only, which shares nothing that can be changed."""
    objects: list[SeenObject] = [{**seen} for seen in state["visible_objects"][:max_visible]]
    return {**state, "visible_objects": objects}


def describe(state: NavigationStateDict, representation: str) -> str:
    """Returns the state in words; raises `ConfigError` for an unknown representation."""
    require_choice("representation", representation, WITHOUT_SYMBOLS)
    return natural_language(state) if representation == "natural_language" else structured_text(state)


def natural_language(state: Mapping[str, Any]) -> str:
    """Returns sentences: the target's first, then `visible:` and one for each visible object."""
    target = _sentence(
        state["target_obj_type"], state["target_direction_to_player"], state["target_distance_to_player"]
    )
    seen = " ".join(
        _sentence(each["type"], each["direction_to_player"], each["distance_to_player"])
        for each in state["visible_objects"]
    )
    return f"{target} visible: {seen or 'nothing.'}"


def _seen(sighting: Sighting) -> SeenObject:
    return {
        "type": sighting.type,
        "direction_to_player": direction_of(sighting.ahead_m, sighting.right_m),
        "distance_to_player": round(math.hypot(sighting.ahead_m, sighting.right_m), 2),
    }


def _sentence(type_: str, direction: str, distance_m: float) -> str:
    return f"the {words_of(type_)} is {DIRECTION_PHRASES[direction]} at {distance_m:.2f} m."
