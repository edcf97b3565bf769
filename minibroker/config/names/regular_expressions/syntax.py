r"""A parser of regular expressions in the syntax of RE2/J (its class Parser), a subset of Perl's.

Backreferences and lookaround are not part of the syntax. `\p{...}` supports the general categories of Unicode, but not
its scripts.
"""

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from minibroker.config.names.regular_expressions import characters
from minibroker.config.names.regular_expressions.characters import Accepts

_MAX_REPEATS: Final = 1000
_MAX_DIGITS: Final = 8
_REPEATS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_BRACES: Final = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
_MAX_DEPTH: Final = 200
_MAX_ELEMENTS: Final = 2_000
_MAX_SHOWN_CHARACTERS: Final = 200
_LAST_CODE_POINT: Final = 0x10FFFF
_ESCAPES: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = "01234567"
_HEX: Final = "0123456789abcdefABCDEF"
_ANCHORS: Final = {"A": "text begins", "z": "text ends", "b": "word boundary", "B": "no word boundary"}
_FLAGS: Final = frozenset("imsU")
_INVALID_RANGE: Final = "invalid character class range"
_INVALID_ESCAPE: Final = "invalid escape sequence"


class RegularExpressionError(ValueError):
    """The error for a text that is not a regular expression, or needs too much memory. The message gives the reason.

    Attributes:
        description: The reason alone. For syntax errors it is RE2/J's message, which Kafka prints.
    """

    def __init__(self, description: str, where: str = "") -> None:
        super().__init__(f"{where}: {description}" if where else description)
        self.description = description


class Character(NamedTuple):
    """One character of a set."""

    accepts: Accepts


class Anchor(NamedTuple):
    """A position that consumes no character.

    It is one of "text begins", "text ends", "line begins", "line ends", "word boundary" and "no word boundary".
    """

    place: str


class Repeat(NamedTuple):
    """A repeated node. `most` is None if the number of repetitions is unlimited."""

    node: "Node"
    least: int
    most: int | None


class Branches(NamedTuple):
    """Alternative sequences of nodes."""

    sequences: "list[list[Node]]"


Node: TypeAlias = Character | Anchor | Repeat | Branches


@dataclass
class _Group:
    """An open group: the flags in force outside it, and its content so far."""

    flags: frozenset[str]
    sequences: list[list[Node]] = field(default_factory=lambda: [[]])


def parse(pattern: str) -> Branches:
    """Parse an expression.

    Raises:
        RegularExpressionError: The pattern is invalid or too large.
    """
    return _Parser(pattern).run()


class _Parser:
    """A parser that reads an expression from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = [_Group(self._flags)]
        self._names: set[str] = set()
        self._elements = 0
        self._literals: dict[tuple[str, bool], Character] = {}

    def run(self) -> Branches:
        """Parse the whole expression."""
        has_repeated = False
        while self._at < len(self._pattern):
            is_brace = self._peek() == "{"  # No repetition may follow a brace, even if the brace is a literal.
            repeat = self._repeat_here()
            if repeat is None:
                self._parse_element()
            elif has_repeated:
                raise self._make_error("invalid nested repetition operator")
            else:
                self._repeat(*repeat)
            has_repeated = is_brace or repeat is not None
        if len(self._groups) > 1:
            raise self._make_error("missing closing )")
        return Branches(self._groups[0].sequences)

    def _make_error(self, description: str) -> RegularExpressionError:
        shown = self._pattern[:_MAX_SHOWN_CHARACTERS]
        return RegularExpressionError(description, f"{shown!r}, character {self._at}")

    def _count(self) -> None:
        """Count an element: a character, a group, or a member of a class."""
        self._elements += 1
        if self._elements > _MAX_ELEMENTS:
            raise self._make_error(f"the expression has more than {_MAX_ELEMENTS} elements")

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._peek()
        self._at += 1
        return character

    def _skip(self, text: str) -> bool:
        """Skip `text` if it comes next, and return whether it did."""
        is_here = self._pattern.startswith(text, self._at)
        self._at += len(text) * is_here
        return is_here

    def _read_until(self, end: str) -> str | None:
        """Return the text before the next `end` and skip both, or return None if there is no `end`."""
        position = self._pattern.find(end, self._at)
        if position < 0:
            return None
        text, self._at = self._pattern[self._at : position], position + len(end)
        return text

    @property
    def _sequence(self) -> list[Node]:
        return self._groups[-1].sequences[-1]

    def _parse_literal(self, character: str) -> None:
        key = character, "i" in self._flags
        node = self._literals.get(key)
        if node is None:
            accepts = characters.between(ord(character), ord(character))
            node = self._literals[key] = Character(self._apply_case(accepts))
        self._sequence.append(node)

    def _apply_case(self, accepts: Accepts) -> Accepts:
        return characters.ignore_case(accepts) if "i" in self._flags else accepts

    def _parse_element(self) -> None:
        """Parse the next element, but not a quantifier that follows it."""
        self._count()
        character = self._take()
        by_line = "line" if "m" in self._flags else "text"
        if character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character == "|":
            self._groups[-1].sequences.append([])
        elif character == "^":
            self._sequence.append(Anchor(f"{by_line} begins"))
        elif character == "$":
            self._sequence.append(Anchor(f"{by_line} ends"))
        elif character == ".":
            self._sequence.append(Character(characters.ANY if "s" in self._flags else characters.NO_NEWLINE))
        elif character == "[":
            self._sequence.append(Character(self._parse_class()))
        elif character == "\\":
            self._escape()
        else:
            self._parse_literal(character)

    def _open(self) -> None:
        before = self._flags
        if self._skip("?") and not self._begins_group():
            return
        if len(self._groups) > _MAX_DEPTH:
            raise self._make_error(f"groups within more than {_MAX_DEPTH} others")
        self._groups.append(_Group(before))

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise self._make_error("a ) closes no group")
        group = self._groups.pop()
        self._flags = group.flags
        self._sequence.append(Branches(group.sequences))

    def _begins_group(self) -> bool:
        """Parse a name or flags after `(?`, and return whether a group begins.

        Flags alone begin no group. They apply from here on.
        """
        if self._skip("P<") or self._skip("<"):
            name = self._read_until(">")
            if not name or not all(letter == "_" or _is_alphanumeric(letter) for letter in name):
                raise self._make_error("invalid named capture")
            if name in self._names:
                raise self._make_error("duplicate capture group name")
            self._names.add(name)
            return True
        flags, switched_on, has_flags = self._flags, True, False
        while True:
            character = self._take()
            if character in _FLAGS:
                flags = flags | {character} if switched_on else flags - {character}
                has_flags = True
            elif character == "-" and switched_on:
                switched_on, has_flags = False, False
            elif character and character in ":)" and (switched_on or has_flags):
                self._flags = flags
                return character == ":"
            else:
                raise self._make_error("invalid or unsupported Perl syntax")

    def _repeat_here(self) -> tuple[int, int | None] | None:
        """Parse the repetition at the current position, or return None if there is none."""
        counts = _REPEATS.get(self._peek())
        if counts is not None:
            self._at += 1
        else:
            counts = self._parse_counts()
        if counts is not None:
            self._skip("?")  # Laziness has no influence on whether the whole text matches.
        return counts

    def _parse_counts(self) -> tuple[int, int | None] | None:
        """Parse `{3}`, `{3,}` or `{3,5}`. Anything else in braces is literal."""
        braces = _BRACES.match(self._pattern, self._at)
        if braces is None:
            return None
        self._at = braces.end()
        minimum, comma, maximum = braces.groups()
        # The numbers have no leading zeros, so the first digits of a long number already exceed the limit.
        least = int(minimum[:_MAX_DIGITS])
        most = int(maximum[:_MAX_DIGITS]) if maximum else None if comma else least
        if max(least, most or 0) > _MAX_REPEATS or (most is not None and most < least):
            raise self._make_error("invalid repeat count")
        return least, most

    def _repeat(self, least: int, most: int | None) -> None:
        if not self._sequence:
            raise self._make_error("missing argument to repetition operator")
        self._sequence.append(Repeat(self._sequence.pop(), least, most))

    def _escape(self) -> None:
        """Parse an element after a backslash."""
        if self._skip("Q"):
            quoted = self._read_until("\\E")
            if quoted is None:
                quoted, self._at = self._pattern[self._at :], len(self._pattern)
            for character in quoted:
                self._count()
                self._parse_literal(character)
        elif self._peek() and self._peek() in _ANCHORS:
            self._sequence.append(Anchor(_ANCHORS[self._take()]))
        elif (accepts := self._named_set()) is not None:
            self._sequence.append(Character(accepts))
        else:
            self._parse_literal(self._parse_escape())

    def _named_set(self) -> Accepts | None:
        r"""Parse a class after a backslash, such as `\d`, `\pL`, `\p{Lu}` or `\P{^Lu}`, or return None."""
        letter = self._peek()
        if letter and letter in "dswDSW":
            self._at += 1
            return self._apply_sign(characters.perl(letter.lower()), is_negated=letter.isupper())
        if not letter or letter not in "pP":
            return None
        self._at += 1
        name: str | None = self._take()
        if name == "{":
            name = self._read_until("}")
        is_negated = letter == "P"
        if name and name.startswith("^"):
            name, is_negated = name[1:], not is_negated
        accepts = characters.unicode(name or "")
        if accepts is None:
            raise self._make_error(_INVALID_RANGE)
        return self._apply_sign(accepts, is_negated=is_negated)

    def _apply_sign(self, accepts: Accepts, *, is_negated: bool) -> Accepts:
        accepts = self._apply_case(accepts)
        return characters.negated(accepts) if is_negated else accepts

    def _parse_escape(self) -> str:
        """Parse the rest of an escape sequence after its backslash, and return the character that it stands for."""
        character = self._take()
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character == "x":
            return self._parse_hexadecimal()
        if character and character in _OCTAL and (character == "0" or (self._peek() and self._peek() in _OCTAL)):
            digits = character
            while len(digits) < 3 and self._peek() and self._peek() in _OCTAL:  # noqa: PLR2004 - as C has them
                digits += self._take()
            return chr(int(digits, 8))
        if not character:
            raise self._make_error("trailing backslash at end of expression")
        if _is_alphanumeric(character):
            raise self._make_error(_INVALID_ESCAPE)
        return character

    def _parse_hexadecimal(self) -> str:
        if self._skip("{"):
            digits = self._read_until("}")
        else:
            digits, self._at = self._pattern[self._at : self._at + 2].rjust(2), self._at + 2
        if not digits or not all(digit in _HEX for digit in digits) or int(digits, 16) > _LAST_CODE_POINT:
            raise self._make_error(_INVALID_ESCAPE)
        return chr(int(digits, 16))

    def _parse_class(self) -> Accepts:
        """Parse a bracketed class. Its opening bracket has already been read."""
        is_negated = self._skip("^")
        members: list[Accepts] = []
        while self._peek() != "]" or not members:
            members.append(self._parse_member())
        self._at += 1
        accepts = characters.union(members)
        return characters.negated(accepts) if is_negated else accepts

    def _parse_member(self) -> Accepts:
        """Parse a member of a class: a named class, a range, or a character."""
        self._count()
        start = self._at
        if self._skip("[:"):
            name = self._read_until(":]")
            if name is not None:
                accepts = characters.posix(name.removeprefix("^"))
                if accepts is None:
                    raise self._make_error(_INVALID_RANGE)
                return self._apply_sign(accepts, is_negated=name.startswith("^"))
        elif self._skip("\\"):
            named = self._named_set()
            if named is not None:
                return named
        self._at = start
        first = last = self._class_character()
        if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] != "]":
            self._at += 1
            last = self._class_character()
        if last < first:
            raise self._make_error(_INVALID_RANGE)
        return self._apply_case(characters.between(ord(first), ord(last)))

    def _class_character(self) -> str:
        if not self._peek():
            raise self._make_error("missing closing ]")
        return self._parse_escape() if self._skip("\\") else self._take()


def _is_alphanumeric(character: str) -> bool:
    return character.isascii() and character.isalnum()
