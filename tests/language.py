"""A lint of the language in docstrings, comments, messages, and help texts: plain, idiomatic American English.

`findings(path)` lists the phrases of a Python file that CONTRIBUTING.md asks not to use. Code in backticks and text in
double quotes is not checked.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]

PER_UNITS = "bytes|seconds|minutes|tokens|pixels|turns|actions|calls|requests|images|questions|samples|episodes|steps"
PER_WHAT = "row|side|turn|second|minute|hour|episode|step|token|page|image|call|worker|process|group|device|world|line"

PATTERNS = {
    "relative clause without an antecedent": (
        r"(?:^|(?<=[.;:!])\s+)(?:Who(?:ever)?|What(?:ever)?|Whichever)\b(?![^.]*\?)"
    ),
    "what as a noun": r"\bwhether what\b|\bof what\b|\b(?:from|by|with|for|to) what (?:is|was|has|it)\b",
    "go on for resume or continue": r"\b(?:go|goes|going|gone|went) on\b",
    "tell or say for report": r"\b(?<!hard to )(?:told|tells?|telling|says)\b(?! apart)",
    "archaic word": (
        r"\b(?:besides|anew|likewise|hitherto|thereof|whence|one behind (?:the |an)other|lest|upon|heed(?:s|ed)?)\b"
    ),
    "beside for next to or in addition to": r"\bbeside\b",
    "as of": r"\bas of\b",
    "but for": r"\bbut for\b",
    "dummy person": r"\b(?:nobody|whoever|whomever|somebody)\b",
    "none for invalid": r"\b(?<!there )(?:is|are|was|were) (?-i:none)(?: of| but|[.,;:)]|$)",
    "come to": r"\b(?:comes?|came|coming) to\b",
    "so many": r"\b(?:of|in|every) so (?:many|much)\b",
    "can be had": r"\b(?:be|been|is|was|are) had\b",
    "let go of": r"\blets? go of\b",
    "a for per": rf"\b(?:{PER_UNITS}) an? (?:{PER_WHAT})\b|\bat most \d+ an? \w+",
    "picture for image": r"\bpictures?\b",
    "data set for dataset": r"\bdata sets?\b",
    "British spelling": (
        r"\b(?:\w*colou?red? grey|grey\w*|\w*colour\w*|behaviours?|favour\w*|neighbour\w*|honour\w*|rumour\w*|"
        r"centred?|centres|metres?|(?:centi|milli|kilo)metres?|litres?|fibres?|theatre|labell\w+|modell\w+|travell\w+|"
        r"cancell(?:ed|ing)|signall\w+|learnt|burnt|spelt|dreamt|leapt|judgement\w*|artefacts?|licences?|defences?|"
        r"catalogues?|dialogues|programmes?|whilst|amongst|ageing|cheques?|analys(?:e|ed|es|ing)|"
        r"(?:normal|optim|initial|serial|token|recogn|organ|summar|visual|minim|maxim|real|special|general|util|"
        r"random|synchron|standard|penal|parallel|local|linear|vector|capital|author|categor|priorit|final)is"
        r"(?:e|ed|er|ers|es|ing|ation|ations)|the other way round)\b"
    ),
}
"""Phrases to avoid, by what is wrong with them."""

LOOP_NAMES = {"each", "place", "known", "told"}
"""Loop variables that do not say what they hold."""

MESSAGE_CALLS = re.compile(
    r"require\w*|fault|broken|warn(?:ing)?|error|fail|print|add_argument|add_parser|ArgumentParser|\w*Error"
)

ALLOWED: dict[tuple[str, str], str] = {}
"""Findings that stay: (file, phrase) and the reason."""

_AT_START = "relative clause without an antecedent"  # its capital letter counts
_PATTERNS = {name: re.compile(text, 0 if name == _AT_START else re.IGNORECASE) for name, text in PATTERNS.items()}
_QUOTED = re.compile(r"```.*?```|``.*?``|`[^`]*`|\"[^\"\n]*\"", re.DOTALL)
_ARGUMENT = re.compile(r"^\s+\*{0,2}\w+: ", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One phrase of a file."""

    path: str
    line: int
    name: str
    phrase: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: {self.phrase!r}"


def findings(path: Path) -> list[Finding]:
    """Returns the findings of a Python file, except those in `ALLOWED`."""
    source = path.read_text(encoding="utf-8")
    name = path.relative_to(CHECKOUT).as_posix()
    tree = ast.parse(source)
    texts = [*_comments(source), *_strings(tree)]
    found = [*_in_texts(name, texts), *_in_names(name, tree)]
    return sorted((one for one in found if (name, one.phrase) not in ALLOWED), key=lambda one: one.line)


def _in_texts(path: str, texts: list[tuple[int, str]]) -> Iterator[Finding]:
    for line, text in texts:
        prose = _QUOTED.sub(lambda match: "`" + "\n" * match[0].count("\n") + "`", text)
        prose = _ARGUMENT.sub(lambda match: re.sub(r"\S+ ", ". ", match[0]), prose)
        for name, pattern in _PATTERNS.items():
            for match in pattern.finditer(prose):
                yield Finding(
                    path=path,
                    line=line + prose.count("\n", 0, match.start() + len(match[0]) - len(match[0].lstrip())),
                    name=name,
                    phrase=match[0].strip(),
                )


def _in_names(path: str, tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            for target in ast.walk(node.target):
                if isinstance(target, ast.Name) and target.id in LOOP_NAMES:
                    yield Finding(path=path, line=target.lineno, name="loop variable", phrase=target.id)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yields comments; those of consecutive lines as one text."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or token.string.startswith(("#!", "# noqa", "# type:")):
            continue
        text = token.string.lstrip("# ")
        if block and token.start[0] == last + 1:
            block.append(text)
        else:
            if block:
                yield first, "\n".join(block)
            block, first = [text], token.start[0]
        last = token.start[0]
    if block:
        yield first, "\n".join(block)


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields docstrings, including attribute docstrings, and messages: strings in `raise` and in `MESSAGE_CALLS`."""
    seen: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.lineno, node.value.value
        elif isinstance(node, ast.Raise) and node.exc is not None and not _is_observation(node.exc):
            yield from _texts_below(node.exc, seen)
        elif isinstance(node, ast.Call):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if MESSAGE_CALLS.fullmatch(called) and not _is_observation(node):
                yield from _texts_below(node, seen)
            for keyword in node.keywords:
                if keyword.arg in ("help", "description", "epilog"):
                    yield from _texts_below(keyword.value, seen)


def _is_observation(node: ast.AST) -> bool:
    """Returns whether a node makes an error that tools report to the model, whose text is part of a world."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ToolError"


def _texts_below(node: ast.AST, seen: set[ast.AST]) -> Iterator[tuple[int, str]]:
    if node in seen:
        return
    seen.add(node)
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        yield node.lineno, "".join(map(str, parts))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from _texts_below(part.value, seen)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts_below(child, seen)
