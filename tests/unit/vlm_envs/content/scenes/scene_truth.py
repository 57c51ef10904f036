"""Answers worked out anew, from the words of a question and the places of things: shares nothing with the templates."""

from __future__ import annotations

import re

from vlm_envs.content.scenes.scene_questions import there_are

PLURALS = {"fish": "fish", "butterflies": "butterfly"}
NAME = r"(\w+ \w+)"


def singular(noun):
    return PLURALS.get(noun, noun.removesuffix("s"))


def true_answers(sample):
    """Returns the set of true answers; for choices the letters whose options are true."""
    question, things = sample.question, sample.images[0].scene.things
    if question in ("Of which are there more in the picture?", "Which does the picture show more of?"):
        return more_letters(sample)
    if question in ("Which of the two is taller in the picture?", "Which of these takes up more of the height?"):
        return taller_letters(sample)
    for pattern, answer in PATTERNS:
        if match := re.search(pattern, question):
            if sample.key.kind == "choice":
                return {chr(65 + index) for index, text in enumerate(sample.key.options) if answer(things, match, text)}
            return {answer(things, match, None)}
    raise AssertionError(f"Nobody knows what {question!r} asks")


def named(things, name):
    color, kind = name.split()
    return [thing for thing in things if (thing.color, thing.kind) == (color, kind)]


def only(things, name):
    (thing,) = named(things, name)
    return thing


def presence(things, match, option):
    return "yes" if named(things, match[1]) else "no"


def is_there(things, match, option):
    return bool(named(things, option.split(" ", 1)[1]))


def color(things, match, option):
    (thing,) = [thing for thing in things if thing.kind == match[1]]
    return thing.color if option is None else thing.color == option


def written(things, match, option):
    text = only(things, match[1]).text
    return text if option is None else text == option


def time(things, match, option):
    minutes = only(things, match[1]).minutes
    hours = minutes // 60
    text = f"{12 if hours == 0 else hours}:{minutes - 60 * hours:02}"
    return text if option is None else text == option


def middle(thing):
    frame = thing.frame
    return (frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2


def where(things, one, other):
    (x1, y1), (x2, y2) = middle(only(things, one)), middle(only(things, other))
    return x1 - x2, y1 - y2


def placed(one, other):
    def answer(things, match, option):
        right, down = where(things, match[one], match[other])
        words = {"left": right < 0, "right": right > 0, "above": down < 0, "below": down > 0}
        words |= {"up": down < 0, "down": down > 0}
        return all(true for word, true in words.items() if word in option.split())

    return answer


def claimed(things, match, option):
    right, down = where(things, match[1], match[3])
    true = {"to the left of": right < 0, "to the right of": right > 0, "above": down < 0, "below": down > 0}[match[2]]
    return "yes" if true else "no"


def contents(things, match, option):
    outer, inner = only(things, match[1]).frame, only(things, option.split(" ", 1)[1]).frame
    return (
        outer.left <= inner.left
        and outer.top <= inner.top
        and outer.right >= inner.right
        and outer.bottom >= inner.bottom
    )


def count(things, match, option):
    words = match[1].split()
    kind = singular(words[-1])
    return str(sum(thing.kind == kind and words[0] in (thing.color, words[-1]) for thing in things))


def same(things, match, option):
    return "yes" if only(things, match[1]).minutes == only(things, match[2]).minutes else "no"


PATTERNS = (
    (rf"(?:Is there|Can|picture show) an? {NAME}(?: anywhere| be seen|\?)", presence),
    (r"these things is in the picture|One of these is", is_there),
    (r"What colour is the (\w+)\?", color),
    (r"does the only (\w+) in", color),
    (rf"written on the {NAME}\?", written),
    (rf"does the {NAME} say", written),
    (rf"does the {NAME} show\?", time),
    (rf"What time is it by the {NAME}\?", time),
    (rf"side of the {NAME} is the {NAME}\?", placed(2, 1)),
    (rf"Where is the {NAME}, as seen from the {NAME}\?", placed(1, 2)),
    (rf"Compared with the {NAME}, where in the height of the picture is the {NAME}\?", placed(2, 1)),
    (rf"direction from the {NAME} is the {NAME}\?", placed(2, 1)),
    (rf"Relative to the {NAME}, where in the picture is the {NAME}\?", placed(2, 1)),
    (rf"Is the {NAME} (to the left of|to the right of|above|below) the {NAME} in", claimed),
    (rf"What lies in the {NAME}\?", contents),
    (rf"Which thing is inside the {NAME}\?", contents),
    (r"How many ([\w ]+?)(?: of any colour)? are there", count),
    (r"how many (\w+) does", count),
    (r"How many ([\w ]+) does", count),
    (rf"Do the {NAME} and the {NAME} show the same time", same),
    (rf"same time by the {NAME} as by the {NAME}\?", same),
)


def more_letters(sample):
    """Returns the true letters of a question of which there are more."""
    things = sample.images[0].scene.things
    numbers = {}
    for option in sample.key.options:
        if not option.startswith("neither"):
            color_word, plural = option.split()
            numbers[option] = len(named(things, f"{color_word} {singular(plural)}"))
    first, second = numbers.values()
    true = "neither" if first == second else max(numbers, key=numbers.get)
    return {chr(65 + index) for index, text in enumerate(sample.key.options) if text.startswith(true)}


def taller_letters(sample):
    """Returns the true letters of a question of heights."""
    things, options = sample.images[0].scene.things, sample.key.options
    sizes = [only(things, option.removeprefix("the ")).size_px for option in options]
    return {chr(65 + index) for index, size in enumerate(sizes) if size == max(sizes)}


def frame_sentences(clip, frame):
    """Yields true sentences about a frame: on which side of the line things are, and how many of each kind."""
    names = ("left of", "right of") if clip.line_upright else ("above", "below")
    kinds = [mover.thing.kind for mover in clip.movers]
    for index, mover in enumerate(clip.movers):
        if not clip.is_clear(index, frame):
            continue
        side = names[0] if clip.side(index, frame) < 0 else names[1]
        yield f"The {mover.thing.name} is {'to the ' if clip.line_upright else ''}{side} the {clip.line_color} line."
    for kind in dict.fromkeys(kinds):
        yield there_are(kinds.count(kind), kind)
