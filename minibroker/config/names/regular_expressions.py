r"""Regular expressions sent by clients, with RE2/J's syntax, matched by a lazy DFA as in RE2.

Python's own matcher backtracks, which can take exponential time. This matcher follows all paths through the expression
at the same time. It caches, for each set of states and each character, the set that follows. Once the sets are cached,
a text costs one look-up per character. The sizes of the program and of the cache are limited.

The parser follows RE2/J's class Parser. Backreferences and lookaround are not part of the syntax. `\p{...}` supports
the general categories of Unicode, but not its scripts.

This is one file of more than 500 lines because parser, program and matcher serve only each other.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

Accepts = Callable[[str], bool]
"""A function that returns whether a character is in the set."""

_DIGITS: Final = "0123456789"
_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"
_UPPER: Final = _LOWER.upper()
_ALPHANUMERIC: Final = _DIGITS + _LOWER + _UPPER
_ASCII: Final = "".join(map(chr, range(128)))
_GRAPH: Final = "".join(map(chr, range(0x21, 0x7F)))
_PERL: Final = {"d": _DIGITS, "s": "\t\n\f\r ", "w": _ALPHANUMERIC + "_"}
_POSIX: Final = {
    "alnum": _ALPHANUMERIC,
    "alpha": _LOWER + _UPPER,
    "ascii": _ASCII,
    "blank": "\t ",
    "cntrl": "".join(map(chr, [*range(0x20), 0x7F])),
    "digit": _DIGITS,
    "graph": _GRAPH,
    "lower": _LOWER,
    "print": _GRAPH + " ",
    "punct": "".join(each for each in _GRAPH if each not in _ALPHANUMERIC),
    "space": "\t\n\v\f\r ",
    "upper": _UPPER,
    "word": _ALPHANUMERIC + "_",
    "xdigit": _DIGITS + "abcdefABCDEF",
}
_CATEGORIES: Final = frozenset(
    {"C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No"}
    | {"P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs"}
)
"""Unicode's general categories that RE2/J supports. "C" contains no unassigned code points."""
_UNASSIGNED: Final = "Cn"
# fmt: off
_CASED_RANGES: Final = (
    (0x41, 0x7A), (0xB5, 0x29E), (0x345, 0x345), (0x370, 0x586), (0x10A0, 0x10FF), (0x13A0, 0x13FD), (0x1C80, 0x1CBF),
    (0x1D79, 0x1D8E), (0x1E00, 0x1FFC), (0x2126, 0x2184), (0x24B6, 0x24E9), (0x2C00, 0x2D2D), (0xA640, 0xA69B),
    (0xA722, 0xA7F6), (0xAB53, 0xABBF), (0xFF21, 0xFF5A), (0x10400, 0x1044F), (0x104B0, 0x104FB), (0x10570, 0x105BC),
    (0x10C80, 0x10CF2), (0x10D50, 0x10D85), (0x118A0, 0x118DF), (0x16E40, 0x16E7F), (0x16EA0, 0x16ED3),
    (0x1E900, 0x1E943),
)
# fmt: on
"""Ranges of code points with all cased characters of Unicode 17. Searching all of Unicode would take 40 ms."""
_DOTLESS_I: Final = "\u0131"


def perl(letter: str) -> Accepts:
    r"""Return the class for `\d`, `\s` or `\w`. It contains only ASCII characters."""
    return frozenset(_PERL[letter]).__contains__


def posix(name: str) -> Accepts | None:
    """Return the class for `[:name:]`, or None if no class has this name."""
    members = _POSIX.get(name)
    return None if members is None else frozenset(members).__contains__


def unicode(name: str) -> Accepts | None:
    r"""Return the class for `\p{name}`, or None if `name` is not a general category."""
    if name == "Any":
        return ANY
    if name not in _CATEGORIES:
        return None

    def holds(character: str) -> bool:
        category = unicodedata.category(character)
        return category.startswith(name) and category != _UNASSIGNED

    return holds


def between(first: int, last: int) -> Accepts:
    """Return the set of characters from one code point to another, inclusive."""
    return lambda character: first <= ord(character) <= last


def negated(accepts: Accepts) -> Accepts:
    """Return the complement of a set."""
    return lambda character: not accepts(character)


def union(sets: Iterable[Accepts]) -> Accepts:
    """Return the union of sets."""
    members = tuple(sets)
    if len(members) == 1:
        return members[0]
    return lambda character: any(accepts(character) for accepts in members)


def ignore_case(accepts: Accepts) -> Accepts:
    """Return the set extended by every character that differs only in case from one of the set's members."""
    return lambda character: accepts(character) or any(map(accepts, _orbits().get(character, "")))


def _fold(character: str) -> str:
    """Return the character that represents all characters differing only in case (Unicode's simple case folding)."""
    upper = character.upper()
    if character == _DOTLESS_I or len(upper) > 1:
        upper = character
    lower = upper.lower()
    return lower if len(lower) == 1 else character


@functools.cache
def _orbits() -> dict[str, str]:
    """Map each cased character to itself and the characters that differ from it only in case."""
    orbits: dict[str, list[str]] = {}
    for character in (chr(code) for first, last in _CASED_RANGES for code in range(first, last + 1)):
        plain = _fold(character)
        if plain != character:
            orbits.setdefault(plain, [plain]).append(character)
    return {character: "".join(orbit) for orbit in orbits.values() for character in orbit}


ANY: Final = between(0, 0x10FFFF)
NO_NEWLINE: Final = negated(between(10, 10))


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
            accepts = between(ord(character), ord(character))
            node = self._literals[key] = Character(self._apply_case(accepts))
        self._sequence.append(node)

    def _apply_case(self, accepts: Accepts) -> Accepts:
        return ignore_case(accepts) if "i" in self._flags else accepts

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
            self._sequence.append(Character(ANY if "s" in self._flags else NO_NEWLINE))
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
            return self._apply_sign(perl(letter.lower()), is_negated=letter.isupper())
        if not letter or letter not in "pP":
            return None
        self._at += 1
        name: str | None = self._take()
        if name == "{":
            name = self._read_until("}")
        is_negated = letter == "P"
        if name and name.startswith("^"):
            name, is_negated = name[1:], not is_negated
        accepts = unicode(name or "")
        if accepts is None:
            raise self._make_error(_INVALID_RANGE)
        return self._apply_sign(accepts, is_negated=is_negated)

    def _apply_sign(self, accepts: Accepts, *, is_negated: bool) -> Accepts:
        accepts = self._apply_case(accepts)
        return negated(accepts) if is_negated else accepts

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
        accepts = union(members)
        return negated(accepts) if is_negated else accepts

    def _parse_member(self) -> Accepts:
        """Parse a member of a class: a named class, a range, or a character."""
        self._count()
        start = self._at
        if self._skip("[:"):
            name = self._read_until(":]")
            if name is not None:
                accepts = posix(name.removeprefix("^"))
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
        return self._apply_case(between(ord(first), ord(last)))

    def _class_character(self) -> str:
        if not self._peek():
            raise self._make_error("missing closing ]")
        return self._parse_escape() if self._skip("\\") else self._take()


def _is_alphanumeric(character: str) -> bool:
    return character.isascii() and character.isalnum()


MOST_STATES: Final = 2_000
"""The most states of an expression. Counted repeats are expanded."""

EDGE: Final = 0
"""The character type before the first and after the last character of a text."""
NEWLINE: Final = 1
WORD: Final = 2
OTHER: Final = 3

Condition = Callable[[int, int], bool]
"""A function that returns whether an anchor matches between characters of two types."""

_CONDITIONS: Final[dict[str, Condition]] = {
    "text begins": lambda before, _: before == EDGE,
    "text ends": lambda _, after: after == EDGE,
    "line begins": lambda before, _: before in {EDGE, NEWLINE},
    "line ends": lambda _, after: after in {EDGE, NEWLINE},
    "word boundary": lambda before, after: (before == WORD) is not (after == WORD),
    "no word boundary": lambda before, after: (before == WORD) is (after == WORD),
}


def kind_of(character: str) -> int:
    """Return the type of a character. Anchors distinguish only these types."""
    if character == "\n":
        return NEWLINE
    is_word = character == "_" or (character.isascii() and character.isalnum())
    return WORD if is_word else OTHER


class Program:
    """The states of an expression, by number, in three lists of the same length.

    Attributes:
        sets: For each state, the index in `accepts` of the set that must contain the state's character. -1 for a
            state that consumes no character.
        places: For each state that consumes no character, the condition for passing it, or None.
        following: For each state, the states that follow it.
        accepts: The distinct sets of characters.
        start: The first state.
        end: The accepting state.
        has_places: Whether any state has a condition.

    Raises:
        RegularExpressionError: The expression has too many states.
    """

    def __init__(self, tree: Branches) -> None:
        self.sets: list[int] = []
        self.places: list[Condition | None] = []
        self.following: list[list[int]] = []
        self.has_places = False
        self._indexes: dict[Accepts, int] = {}
        self._copies = 0
        self.end = self._add_state([])
        self.start = self._add_node(tree, self.end)
        self.accepts = tuple(self._indexes)

    def _add_state(self, following: list[int], characters: int = -1, holds: Condition | None = None) -> int:
        if len(self.sets) >= MOST_STATES:
            raise RegularExpressionError(f"the expression needs more than {MOST_STATES} states")
        self.sets.append(characters)
        self.places.append(holds)
        self.following.append(following)
        return len(self.sets) - 1

    def _add_sequence(self, nodes: list[Node], then: int) -> int:
        for node in reversed(nodes):
            then = self._add_node(node, then)
        return then

    def _add_node(self, node: Node, then: int) -> int:
        """Add the states of a node that is followed by the state `then`, and return the first of them."""
        if isinstance(node, Character):
            return self._add_state([then], self._indexes.setdefault(node.accepts, len(self._indexes)))
        if isinstance(node, Anchor):
            self.has_places = True
            return self._add_state([then], holds=_CONDITIONS[node.place])
        if isinstance(node, Branches):
            if len(node.sequences) == 1:
                return self._add_sequence(node.sequences[0], then)
            return self._add_state([self._add_sequence(sequence, then) for sequence in node.sequences])
        if node.most is None:
            following: list[int] = [then]
            loop = self._add_state(following)
            following.append(self._add_copy(node.node, loop))
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._add_state([end, self._add_copy(node.node, then)])
        for _ in range(node.least):
            then = self._add_copy(node.node, then)
        return then

    def _add_copy(self, node: Node, then: int) -> int:
        """Like _add_node(), for a repeated node. Its copies are limited, because an empty node adds no state."""
        self._copies += 1
        if self._copies > MOST_STATES:
            raise RegularExpressionError(f"the expression repeats something more than {MOST_STATES} times")
        return self._add_node(node, then)


__all__ = ["CostError", "RegularExpression", "RegularExpressionError"]

_MAX_CACHED_STATES: Final = 50_000
"""The maximum number of states in all cached sets together. The cache is cleared when it has more."""
_VISITS_PER_SLICE: Final = 5_000
"""The number of state visits between yields. They take about a millisecond."""
_VISITS: Final = 500_000
_VISITS_PER_TEXT: Final = 2_000
_SET_VISITS: Final = 20
"""The cost of creating a set of states, in state visits."""
_CHARACTERS_PER_VISIT: Final = 4
"""The number of characters with cached sets that cost as much as one state visit."""


class CostError(RegularExpressionError):
    """The error for a match that needs more work than the broker spends on one expression."""


class _StateSet:
    """A state of the DFA: the set of states of the program that are active at the same time.

    Attributes:
        members: The active states, before following those that consume no character.
        kind: The type of the preceding character.
        following: The next set, by character and by class of characters.
        accepts: Whether a text that ends here matches. None until this is computed.
    """

    __slots__ = ("accepts", "following", "kind", "members")

    def __init__(self, members: tuple[int, ...], kind: int) -> None:
        self.members = members
        self.kind = kind
        self.following: dict[str | int, _StateSet] = {}
        self.accepts: bool | None = None


class RegularExpression:
    """A regular expression, matched against whole texts.

    Raises:
        RegularExpressionError: The pattern is invalid or too large.
    """

    def __init__(self, pattern: str) -> None:
        self._program = Program(parse(pattern))
        self._first = _StateSet((self._program.start,), self._reduce_kind(EDGE))
        self._nothing = _StateSet((), self._reduce_kind(OTHER))
        self._nothing.accepts = False
        self._sets: dict[tuple[tuple[int, ...], int], _StateSet] = {}
        self._cached_states = 0
        # Characters of the same type that are in the same character sets of the program share a class.
        self._classes: dict[tuple[bytes, int], int] = {}
        self._class_of: dict[str, int] = {}
        self._flags: list[bytes] = []
        self._kinds: list[int] = []
        self._visits = 0
        self._paused_at = 0
        self._most_visits = 0

    def matches(self, text: str) -> bool:
        """Return whether the whole of `text` matches.

        Raises:
            CostError: Matching takes too much work.
        """
        steps = self.matching((text,))
        try:
            while True:
                next(steps)
        except StopIteration as done:
            return bool(done.value)

    def matching(self, texts: Collection[str]) -> Generator[None, None, list[str]]:
        """Return the texts that match as a whole, yielding about every millisecond.

        Raises:
            CostError: Matching takes too much work.
        """
        self._visits = self._paused_at = 0
        self._most_visits = _VISITS + _VISITS_PER_TEXT * len(texts)
        matching_texts: list[str] = []
        nothing = self._nothing
        characters = 0
        for text in texts:
            characters += len(text) + _CHARACTERS_PER_VISIT
            if characters > _VISITS_PER_SLICE * _CHARACTERS_PER_VISIT:
                characters = 0
                yield
            current = self._first
            for character in text:
                after = current.following.get(character)
                if after is None:
                    after = self._compute_step(current, character)
                    if self._visits - self._paused_at > _VISITS_PER_SLICE:
                        self._paused_at = self._visits
                        if self._visits > self._most_visits:
                            raise CostError("matching the expression takes too much work")
                        yield
                current = after
                if current is nothing:
                    break
            if self._accepts(current):
                matching_texts.append(text)
        return matching_texts

    def _reduce_kind(self, kind: int) -> int:
        """Return the type of a character, or OTHER if no anchor of the expression depends on the type."""
        return kind if self._program.has_places else OTHER

    def _compute_step(self, current: _StateSet, character: str) -> _StateSet:
        """Return the set of states after a character that is not in the cache, and add it to the cache."""
        symbol = self._class_of.get(character)
        if symbol is None:
            symbol = self._classify(character)
        after = current.following.get(symbol)
        if after is None:
            after = self._follow(current, symbol)
            current.following[symbol] = after
        current.following[character] = after
        self._count_cached(1)
        return after

    def _classify(self, character: str) -> int:
        """Return the class of a character that is not in the cache, and add it to the cache."""
        if len(self._class_of) >= _MAX_CACHED_STATES:
            self._class_of.clear()
        flags = bytes(accepts(character) for accepts in self._program.accepts)
        kind = self._reduce_kind(kind_of(character))
        symbol = self._classes.setdefault((flags, kind), len(self._flags))
        if symbol == len(self._flags):
            self._flags.append(flags)
            self._kinds.append(kind)
        self._class_of[character] = symbol
        self._visits += len(flags)
        return symbol

    def _follow(self, current: _StateSet, symbol: int) -> _StateSet:
        """Return the set of states after a character of a class."""
        flags, kind = self._flags[symbol], self._kinds[symbol]
        program = self._program
        active = self._expand(current, kind)
        after = {
            program.following[state][0] for state in active if program.sets[state] >= 0 and flags[program.sets[state]]
        }
        if not after:
            return self._nothing
        members = tuple(sorted(after))
        following = self._sets.get((members, kind))
        if following is None:
            following = _StateSet(members, kind)
            self._count_cached(len(members))
            self._sets[members, kind] = following
        return following

    def _count_cached(self, size: int) -> None:
        """Count cached states, and clear the cache if there are too many."""
        self._cached_states += size
        if self._cached_states > _MAX_CACHED_STATES:
            for states in self._sets.values():
                states.following.clear()
            self._first.following.clear()
            self._sets.clear()
            self._cached_states = 0

    def _expand(self, current: _StateSet, after: int) -> set[int]:
        """Return these states and those reachable without a character. `after` is the next character's type."""
        program, before = self._program, current.kind
        sets, places, following = program.sets, program.places, program.following
        closure: set[int] = set()
        waiting = list(current.members)
        while waiting:
            state = waiting.pop()
            if state in closure:
                continue
            closure.add(state)
            if sets[state] < 0:
                holds = places[state]
                if holds is None or holds(before, after):
                    waiting += following[state]
        self._visits += len(closure) + _SET_VISITS
        return closure

    def _accepts(self, current: _StateSet) -> bool:
        """Return whether a text matches if it ends in this set of states."""
        if current.accepts is None:
            current.accepts = self._program.end in self._expand(current, EDGE)
        return current.accepts
