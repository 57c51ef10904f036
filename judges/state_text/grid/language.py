"""Natural-language state text to relations: a small, lenient reader of spatial sentences.

It reads the worlds' own relation sentences exactly, and what models write freely as far as grammar allows:
either order ("the player is above the box"), shared subjects and objects, an omitted object (then the player
is meant), inverted sentences ("above the player is a hole"), pronouns, negation (claims nothing) and movement
("push the box left" is an action, not a relation). A place in the picture ("in the top left corner") is no
relation and is dropped, as the paper's rubric asks. No string makes it raise, and time is linear in length.
"""

from __future__ import annotations

from judges.state_text.grid.lexicon import Token, TokenKind, tokenize
from judges.state_text.grid.relations import THE_PLAYER, Name, RelationClaims
from judges.state_text.grid.vocabulary import FRAME, PLAYER, ObjectVocabulary

MAX_TEXT_CHARS = 8_000
"""Characters read of a text, far above any state text of the registered worlds; the rest claims nothing."""


def read_language(text: str, vocabulary: ObjectVocabulary) -> RelationClaims:
    """Returns the relations that a text claims, with objects numbered in the order that the text introduces them in."""
    claims = RelationClaims(vocabulary)
    names = _Names()
    sentence: list[Token] = []
    for token in tokenize(text[:MAX_TEXT_CHARS], vocabulary):
        sentence.append(token)
        if token.kind == "stop":
            _SentenceReader(names, claims).read(sentence)
            sentence = []
    return claims


class _Names:
    """Which object a noun or pronoun means, over a whole text.

    A numbered noun always means the same object; "a hole" and "another hole" bring in a new one; "the hole"
    means the one spoken of last.
    """

    def __init__(self) -> None:
        self._numbered: dict[tuple[str, int], Name] = {}
        self._latest: dict[str, Name] = {}
        self._num_known: dict[str, int] = {}
        self._recent: list[Name] = []
        self.last_subject: Name | None = None

    def of_noun(self, token: Token) -> Name:
        kind = token.name
        if kind == PLAYER:
            name = THE_PLAYER
        elif token.index is not None:
            name = self._numbered.get((kind, token.index)) or self._new(kind)
            self._numbered[kind, token.index] = name
        elif token.is_new or kind not in self._latest:
            name = self._new(kind)
        else:
            name = self._latest[kind]
        self._latest[kind] = name
        self._recent = [*[other for other in self._recent if other != name][-3:], name]
        return name

    def of_object_pronoun(self, subjects: list[Name]) -> Name | None:
        """Returns the object that was last spoken of, other than those of which something is being said."""
        return next((name for name in reversed(self._recent) if name not in subjects and name[0] != FRAME), None)

    def _new(self, kind: str) -> Name:
        self._num_known[kind] = self._num_known.get(kind, 0) + 1
        return kind, self._num_known[kind] - 1


class _SentenceReader:
    """Reads one sentence from left to right, holding subjects and sides until their object arrives."""

    def __init__(self, names: _Names, claims: RelationClaims) -> None:
        self._names, self._claims = names, claims
        self._subjects: list[Name] = []
        self._sides: list[Token] = []
        self._previous_sides: list[Token] = []
        self._ground: Name | None = None
        self._is_list_open = self._is_moving = self._is_negated = False

    def read(self, tokens: list[Token]) -> None:
        before: TokenKind = "stop"
        for token, following in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
            if token.kind in ("object", "pronoun"):
                self._read_name(token, before, following)
            elif token.kind == "side":
                self._read_side(token)
            else:
                self._read_small_word(token.kind)
            before = token.kind

    def _read_small_word(self, kind: TokenKind) -> None:
        if kind == "copula":
            self._is_moving = self._is_list_open = False
        elif kind == "move":
            self._is_moving, self._is_list_open = True, False
        elif kind == "not":
            self._is_negated = True
        elif kind == "and" and not self._sides:
            self._is_negated = False
        elif kind == "but":
            if self._is_negated:
                self._sides, self._is_negated = [], False
        elif kind == "stop":
            self._close()

    def _read_side(self, token: Token) -> None:
        if token.is_contact:
            self._is_moving = False
        if not self._is_moving:
            self._sides.append(token)
            self._is_list_open = False

    def _read_name(self, token: Token, before: TokenKind, following: Token) -> None:
        starts_clause = following.kind in ("copula", "move", "not", "side")
        name = self._resolve(token)
        if name is None or before == "near":
            # "next to the hole" gives no side: the hole is spoken of, but nothing is claimed.
            return
        if not self._sides:
            self._read_name_without_sides(name, before, starts_clause)
        elif before == "and" and starts_clause and self._subjects:
            self._close()
            self._begin(name)
        elif before == "copula" and self._subjects:
            # "…, and to the left is the target": the sides come first, and their object is left out.
            self._subjects = [name]
            self._claim(THE_PLAYER)
        elif not self._subjects and self._ground is None:
            self._ground = name
        elif not self._subjects:
            self._subjects = [name]
            self._claim(self._ground or THE_PLAYER)
        else:
            self._claim(name)

    def _read_name_without_sides(self, name: Name, before: TokenKind, starts_clause: bool) -> None:
        if before == "and" and self._previous_sides and not starts_clause:
            self._sides = self._previous_sides
            self._claim(name)
        elif before == "and" and self._is_list_open:
            self._subjects.append(name)
        else:
            self._begin(name)

    def _resolve(self, token: Token) -> Name | None:
        if token.kind == "object":
            return self._names.of_noun(token)
        if self._sides:
            return self._names.of_object_pronoun(self._subjects)
        return self._subjects[0] if self._subjects else self._names.last_subject

    def _begin(self, subject: Name) -> None:
        self._subjects, self._previous_sides, self._ground = [subject], [], None
        self._is_list_open = True

    def _claim(self, anchor: Name) -> None:
        """Says of every subject that it lies on the held sides of `anchor`."""
        for subject in self._subjects if not self._is_negated else ():
            if subject != anchor:
                for side in self._sides:
                    self._claims.add(subject, anchor, side.axis, side.sign)
        self._names.last_subject = self._subjects[0] if self._subjects else None
        self._previous_sides = self._sides if anchor[0] != FRAME else []
        self._sides, self._ground = [], None
        self._is_negated = self._is_list_open = False

    def _close(self) -> None:
        """Ends a clause whose sides found no object: it compares its subjects, or one with the player."""
        if not self._sides or not self._subjects or self._ground is not None:
            self._sides, self._ground = [], None
        elif len(self._subjects) > 1 and all(side.sign == 0 for side in self._sides):
            self._subjects, anchor = self._subjects[1:], self._subjects[0]
            self._claim(anchor)
        elif any(side.is_absolute for side in self._sides):
            self._sides = []
        else:
            self._claim(THE_PLAYER)
