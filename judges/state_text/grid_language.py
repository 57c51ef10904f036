"""Reads relations from natural-language state text: a small, lenient reader of spatial sentences.

It reads the worlds' own relation sentences exactly, and free text as far as its grammar allows: either order
("the player is above the box"), shared subjects and objects, an omitted object (the player is meant), inverted
sentences ("above the player is a hole"), plurals and numbers ("two holes", "both"), pronouns, "directly" (the
other axis is aligned), negation (claims nothing, except that "not" denies a side), and movement ("push the box
left" is an action, not a relation). A region of the image ("in the top left corner") is not a relation and is
dropped, as the paper's rubric asks. No string raises an error, and time is linear in length.
"""

from __future__ import annotations

import itertools

from judges.state_text.grid_lexicon import Token, TokenKind, tokenize
from judges.state_text.grid_relations import ALL, SOME, THE_PLAYER, Name, RelationClaims
from judges.state_text.vocabulary import FRAME, PLAYER, ObjectVocabulary

MAX_TEXT_CHARS = 8_000
"""Characters of a text that are read, far more than any registered world's state text; the rest is ignored."""


def read_language(text: str, vocabulary: ObjectVocabulary) -> RelationClaims:
    """Returns the relations that a text claims, with objects numbered in order of introduction."""
    claims = RelationClaims(vocabulary)
    names = _Names(claims)
    sentence: list[Token] = []
    for token in tokenize(text[:MAX_TEXT_CHARS], vocabulary):
        sentence.append(token)
        if token.kind == "stop":
            _SentenceReader(names, claims).read(sentence)
            sentence = []
    return claims


class _Names:
    """Resolves the nouns and pronouns of a whole text to objects.

    A numbered noun always means the same object; "a hole" and "another hole" introduce a new one; "the hole" means
    the last one mentioned. "Two holes" introduces a group, to which "both holes" and "they" refer.
    """

    def __init__(self, claims: RelationClaims) -> None:
        self._claims = claims
        self._numbered: dict[tuple[str, int], Name] = {}
        self._singles: dict[str, list[Name]] = {}
        self._groups: dict[str, Name] = {}
        self._sizes: dict[Name, int] = {}
        self._num_known: dict[str, int] = {}
        self._recent: list[Name] = []
        self._latest_group: Name | None = None
        self.last_subjects: list[Name] = []

    def of_noun(self, token: Token) -> list[Name]:
        names = self._plural(token) if token.count != 1 else [self._single(token)]
        self._recent = [*[other for other in self._recent if other not in names][-3:], *names[-4:]]
        return names

    def _single(self, token: Token) -> Name:
        kind = token.name
        if kind == PLAYER:
            return THE_PLAYER
        known = self._singles.setdefault(kind, [])
        if token.index is not None:
            name = self._numbered.get((kind, token.index)) or self._new(kind)
            self._numbered[kind, token.index] = name
        elif token.is_new or not known:
            name = self._new(kind)
        else:
            return known[-1]
        if name in known:
            known.remove(name)
        known.append(name)
        return name

    def _plural(self, token: Token) -> list[Name]:
        kind = token.name
        known = self._singles.get(kind, [])
        counts = self._claims.counts
        group = self._groups.get(kind) if token.is_definite else None
        size = self._sizes[group] if group is not None else SOME
        if group is not None and size == SOME and token.count > 0:
            counts[group] = self._sizes[group] = token.count  # "There are holes. The two holes …"
        elif group is not None and token.count in (SOME, ALL, size):
            pass
        elif group is None and token.is_definite and len(known) > 1 and token.count <= len(known) and token.count != 0:
            return list(known)
        else:
            group = self._new(kind)
            counts[group] = self._sizes[group] = token.count
        self._groups[kind] = self._latest_group = group
        return [group]

    def of_object_pronoun(self, subjects: list[Name]) -> list[Name]:
        """Returns the object that was mentioned last, excluding the subjects."""
        return [name for name in reversed(self._recent) if name not in subjects and name[0] != FRAME][:1]

    def of_plural_pronoun(self, subjects: list[Name]) -> list[Name]:
        """Resolves "they": the subjects, if there are several, or else the last group."""
        if len(subjects) > 1:
            return list(subjects)
        if self._latest_group is not None:
            return [self._latest_group]
        return list(self.last_subjects) if len(self.last_subjects) > 1 else []

    def member(self, group: Name | None = None) -> list[Name]:
        """Returns one object of a group, by default the last one, with the claims about the whole group.

        Without a group, returns a new object of the kind that was mentioned last: "a hole …, another is …".
        """
        group = group or self._latest_group
        kinds = [name[0] for name in self._recent if name[0] not in (PLAYER, FRAME)]
        if group is None:
            return [self._new(kind) for kind in kinds[-1:]]
        name = self._new(group[0])
        self._claims.take_member(group, name)
        return [name]

    def _new(self, kind: str) -> Name:
        self._num_known[kind] = self._num_known.get(kind, 0) + 1
        return kind, self._num_known[kind] - 1


class _SentenceReader:
    """Reads one sentence from left to right, keeping subjects and sides until their object follows."""

    def __init__(self, names: _Names, claims: RelationClaims) -> None:
        self._names, self._claims = names, claims
        self._subjects: list[Name] = []
        self._sides: list[Token] = []
        self._previous_sides: list[Token] = []
        self._ground: list[Name] = []
        self._denied: list[Token] = []
        self._is_list_open = self._is_moving = self._is_negated = self._is_denial = False

    def read(self, tokens: list[Token]) -> None:
        before: TokenKind = "stop"
        for position, token in enumerate(tokens):
            if token.kind in ("object", "pronoun"):
                self._read_name(token, before, _starts_clause(tokens, position))
            elif token.kind == "side":
                self._read_side(token)
            else:
                self._read_small_word(token.kind, token.name)
            before = token.kind

    def _read_small_word(self, kind: TokenKind, word: str) -> None:
        if kind == "copula":
            self._is_moving = self._is_list_open = False
        elif kind == "move":
            self._is_moving, self._is_list_open = True, False
        elif kind == "not":
            self._is_negated = True
            self._is_denial = word == "not" and bool(self._subjects) and not self._sides
        elif kind == "and" and not self._sides:
            self._is_negated = False
        elif kind == "but" and self._is_negated:
            self._denied = self._sides if self._is_denial else []
            self._sides, self._is_negated = [], False
        elif kind == "stop":
            self._close()

    def _read_side(self, token: Token) -> None:
        if token.is_contact:
            self._is_moving = False
        if not self._is_moving:
            self._sides.append(token)
            self._is_list_open = False

    def _read_name(self, token: Token, before: TokenKind, starts_clause: bool) -> None:
        if token.is_member:
            self._close()
        names = self._resolve(token)
        if token.is_member and names:
            self._begin(names)
            return
        if not names or before == "near":
            # "next to the hole" has no side: it mentions the hole but claims nothing.
            return
        if not self._sides:
            self._read_name_without_sides(names, before, starts_clause)
        elif before == "and" and starts_clause and self._subjects:
            self._close()
            self._begin(names)
        elif before == "copula" and self._subjects:
            # "…, and to the left is the target": the sides come first, and their object is omitted.
            self._subjects = names
            self._claim([THE_PLAYER])
        elif not self._subjects and not self._ground:
            self._ground = names
        elif not self._subjects:
            self._subjects = names
            self._claim(self._ground or [THE_PLAYER])
        else:
            self._claim(names)

    def _read_name_without_sides(self, names: list[Name], before: TokenKind, starts_clause: bool) -> None:
        if before == "and" and self._previous_sides and not starts_clause:
            self._sides = self._previous_sides
            self._claim(names)
        elif before == "and" and self._is_list_open:
            self._subjects += names
        else:
            self._begin(names)

    def _resolve(self, token: Token) -> list[Name]:
        if token.kind == "object":
            return self._names.of_noun(token)
        if token.is_member:
            return [] if self._is_moving else self._names.member()
        if token.count != 1:
            return self._names.of_plural_pronoun(self._subjects)
        if self._sides:
            return self._names.of_object_pronoun(self._subjects)
        return (self._subjects or self._names.last_subjects)[:1]

    def _begin(self, subjects: list[Name]) -> None:
        self._subjects, self._previous_sides, self._ground = list(subjects), [], []
        self._is_list_open = True

    def _claim(self, anchors: list[Name]) -> None:
        """Claims that every subject lies on the pending sides of every anchor."""
        sides = _without_overruled(self._sides)
        if self._is_negated and self._is_denial:
            self._denied = sides
        self._deny(anchors)
        for subject in self._subjects if not self._is_negated else ():
            is_spread = _contradict(sides) and subject in self._claims.counts
            for side in sides:
                # "There are holes above and below": some lie on each side.
                (member,) = self._names.member(subject) if is_spread else [subject]
                for anchor in anchors:
                    if member != anchor:
                        self._claims.add(member, anchor, side.axis, side.sign)
        self._names.last_subjects = self._subjects
        self._previous_sides = self._sides if all(anchor[0] != FRAME for anchor in anchors) else []
        self._sides, self._ground = [], []
        self._is_negated = self._is_list_open = False

    def _deny(self, anchors: list[Name]) -> None:
        """Denies a single side after "not"; with several sides it is unclear which one is denied."""
        if len(self._denied) == 1:
            for subject, anchor in itertools.product(self._subjects, anchors):
                self._claims.deny(subject, anchor, self._denied[0].axis, self._denied[0].sign)
        self._denied = []

    def _close(self) -> None:
        """Ends a clause whose sides have no object: it relates its subjects to each other, or one to the player."""
        if not self._sides or not self._subjects or self._ground:
            self._sides, self._ground = [], []
        elif len(self._subjects) > 1 and all(side.sign == 0 for side in self._sides):
            self._subjects, anchor = self._subjects[1:], self._subjects[:1]
            self._claim(anchor)
        elif any(side.is_absolute for side in self._sides):
            self._sides = []
        else:
            self._claim([THE_PLAYER])


def _starts_clause(tokens: list[Token], position: int) -> bool:
    """Returns whether the name at a position is a subject or the first of several: "the box and the target are"."""
    if tokens[position + 1].kind == "side":
        return True
    while tokens[position + 1].kind == "and" and tokens[position + 2].kind == "object":
        position += 2
    return tokens[position + 1].kind in ("copula", "move", "not")


def _without_overruled(sides: list[Token]) -> list[Token]:
    """Returns sides without those implied by "directly" on an axis that is named: "directly below and to the left"."""
    named = {side.axis for side in sides if not side.is_implied}
    return [side for side in sides if not (side.is_implied and side.axis in named)]


def _contradict(sides: list[Token]) -> bool:
    return any(len({side.sign for side in sides if side.axis == axis} - {0}) > 1 for axis in (0, 1))
