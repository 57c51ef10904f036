"""Words for things and numbers."""

from __future__ import annotations

from vlm_envs.content.scenes.kinds.table import KINDS

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def a(words: str) -> str:
    """Returns words with the indefinite article."""
    return f"{'an' if words[0] in 'aeio' or words.startswith('um') else 'a'} {words}"


def several(kind: str, color: str = "") -> str:
    """Returns the plural, such as `red mugs`."""
    return f"{color} {KINDS[kind].several}".strip()


def there_are(number: int, kind: str, color: str = "") -> str:
    """Returns a sentence that says how many there are: There are three red mugs."""
    one = f"{color} {kind}".strip()
    if number == 1:
        return f"There is one {one}."
    count = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"There is no {one}." if number == 0 else f"There are {count} {several(kind, color)}."


def clock_time(minutes: int) -> str:
    """Returns a time as a clock of twelve hours tells it: `3:45`, `12:00`."""
    return f"{minutes // 60 or 12}:{minutes % 60:02d}"
