"""Regular expressions that clients send, matched by a lazy DFA, as RE2 does it.

Python's own matcher backtracks, and may take exponential time. This one follows all ways through the expression at
once. It remembers which set of states follows which set at which character, so that a text costs one look-up for each
character once the sets are known. Both the program and the memory are bounded.
"""

from collections.abc import Callable, Collection, Generator
from typing import Final

from minibroker.config.names.regular_expressions.characters import Accepts
from minibroker.config.names.regular_expressions.syntax import (
    Anchor,
    Branches,
    Character,
    Node,
    RegularExpressionError,
    parse,
)

MOST_STATES: Final = 2_000
"""Repeats with numbers are written out; an expression with more states is refused."""

EDGE: Final = 0
"""The kind of neighbor that the first and the last character of a text have on their outer side."""
NEWLINE: Final = 1
WORD: Final = 2
OTHER: Final = 3

Holds = Callable[[int, int], bool]
"""Does a place lie between neighbors of these two kinds?"""

_PLACES: Final[dict[str, Holds]] = {
    "text begins": lambda before, _: before == EDGE,
    "text ends": lambda _, after: after == EDGE,
    "line begins": lambda before, _: before in {EDGE, NEWLINE},
    "line ends": lambda _, after: after in {EDGE, NEWLINE},
    "word boundary": lambda before, after: (before == WORD) is not (after == WORD),
    "no word boundary": lambda before, after: (before == WORD) is (after == WORD),
}


def kind_of(character: str) -> int:
    """The kind of a character, as places see it."""
    if character == "\n":
        return NEWLINE
    is_word = character == "_" or (character.isascii() and character.isalnum())
    return WORD if is_word else OTHER


class Program:
    """States, by number, in three lists of the same length. RegularExpressionError where there are too many.

    Attributes:
        sets: for each state, which of `accepts` its character has to be in; -1 for a state without a character.
        places: for each state without a character, the condition of passing it; None for none.
        following: for each state, the states behind it.
        accepts: the sets of characters, each once.
        start: the first state.
        end: the state that says that the text matches.
        has_places: whether any state has a condition.
    """

    def __init__(self, tree: Branches) -> None:
        self.sets: list[int] = []
        self.places: list[Holds | None] = []
        self.following: list[list[int]] = []
        self.accepts: list[Accepts] = []
        self.has_places = False
        self._numbers: dict[Accepts, int] = {}
        self._copies = 0
        self.end = self._add([])
        self.start = self._node(tree, self.end)

    def _add(self, following: list[int], characters: int = -1, holds: Holds | None = None) -> int:
        if len(self.sets) >= MOST_STATES:
            raise RegularExpressionError(f"the expression needs more than {MOST_STATES} states")
        self.sets.append(characters)
        self.places.append(holds)
        self.following.append(following)
        return len(self.sets) - 1

    def _set(self, accepts: Accepts) -> int:
        number = self._numbers.setdefault(accepts, len(self.accepts))
        if number == len(self.accepts):
            self.accepts.append(accepts)
        return number

    def _sequence(self, nodes: list[Node], then: int) -> int:
        for node in reversed(nodes):
            then = self._node(node, then)
        return then

    def _node(self, node: Node, then: int) -> int:
        """The state that a node begins with, when `then` follows it."""
        if isinstance(node, Character):
            return self._add([then], self._set(node.accepts))
        if isinstance(node, Anchor):
            self.has_places = True
            return self._add([then], holds=_PLACES[node.place])
        if isinstance(node, Branches):
            if len(node.sequences) == 1:
                return self._sequence(node.sequences[0], then)
            return self._add([self._sequence(each, then) for each in node.sequences])
        if node.most is None:
            following: list[int] = [then]
            loop = self._add(following)
            following.append(self._copy(node.node, loop))
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._add([end, self._copy(node.node, then)])
        for _ in range(node.least):
            then = self._copy(node.node, then)
        return then

    def _copy(self, node: Node, then: int) -> int:
        """As `_node`, for a repeated node, which may be empty and add no state."""
        self._copies += 1
        if self._copies > MOST_STATES:
            raise RegularExpressionError(f"the expression repeats something more than {MOST_STATES} times")
        return self._node(node, then)


__all__ = ["CostError", "RegularExpression", "RegularExpressionError"]

_MOST_REMEMBERED: Final = 50_000
"""States in all sets that are remembered together; beyond it, they are all forgotten."""
_SLICE: Final = 5_000
"""State visits between two yields: about a millisecond."""
_VISITS: Final = 500_000
_VISITS_BY_TEXT: Final = 2_000
_SET_VISITS: Final = 20
"""A new set of states costs as much as visiting so many states."""
_CHARACTERS_BY_VISIT: Final = 4
"""So many characters whose sets are known cost as much as visiting one state."""


class CostError(RegularExpressionError):
    """Matching takes more work than the broker does for one expression."""


class _Set:
    """A set of states that are active together: a state of the DFA.

    Attributes:
        members: the states before passing those that need no character.
        kind: the kind of the character before; see `program`.
        following: the set behind a character, or behind a class of characters.
        accepts: whether a text that ends here matches; None until it was looked up.
    """

    __slots__ = ("accepts", "following", "kind", "members")

    def __init__(self, members: tuple[int, ...], kind: int) -> None:
        self.members = members
        self.kind = kind
        self.following: dict[str | int, _Set] = {}
        self.accepts: bool | None = None


class RegularExpression:
    """An expression that whole texts are held against. RegularExpressionError."""

    def __init__(self, pattern: str) -> None:
        self._program = Program(parse(pattern))
        self._first = _Set((self._program.start,), self._kind(EDGE))
        self._nothing = _Set((), self._kind(OTHER))
        self._nothing.accepts = False
        self._sets: dict[tuple[tuple[int, ...], int], _Set] = {}
        self._remembered = 0
        # A class of characters is (which sets of the program have them, their kind); no two classes are alike.
        self._classes: dict[tuple[bytes, int], int] = {}
        self._class_of: dict[str, int] = {}
        self._flags: list[bytes] = []
        self._kinds: list[int] = []
        self._visits = 0
        self._paused_at = 0
        self._most_visits = 0

    def matches(self, text: str) -> bool:
        """Does the whole of `text` match? CostError."""
        steps = self.matching((text,))
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return bool(done.value)

    def matching(self, texts: Collection[str]) -> Generator[None, None, list[str]]:
        """Find the texts that match as a whole; yields about every millisecond. CostError."""
        self._visits = self._paused_at = 0
        self._most_visits = _VISITS + _VISITS_BY_TEXT * len(texts)
        found: list[str] = []
        nothing = self._nothing
        characters = 0
        for text in texts:
            characters += len(text) + _CHARACTERS_BY_VISIT
            if characters > _SLICE * _CHARACTERS_BY_VISIT:
                characters = 0
                yield
            reached = self._first
            for character in text:
                after = reached.following.get(character)
                if after is None:
                    after = self._step(reached, character)
                    if self._visits - self._paused_at > _SLICE:
                        self._pay()
                        yield
                reached = after
                if reached is nothing:
                    break
            if self._accepts(reached):
                found.append(text)
        return found

    def _pay(self) -> None:
        self._paused_at = self._visits
        if self._visits > self._most_visits:
            raise CostError("matching the expression takes too much work")

    def _kind(self, kind: int) -> int:
        """Kinds only tell sets apart where something depends on them."""
        return kind if self._program.has_places else OTHER

    def _step(self, reached: _Set, character: str) -> _Set:
        """The set behind a character that was not seen here yet."""
        symbol = self._class_of.get(character)
        if symbol is None:
            symbol = self._class(character)
        after = reached.following.get(symbol)
        if after is None:
            after = self._after(reached, symbol)
            reached.following[symbol] = after
        reached.following[character] = after
        self._remember(1)
        return after

    def _class(self, character: str) -> int:
        """The class of a character that was not seen yet."""
        if len(self._class_of) >= _MOST_REMEMBERED:
            self._class_of.clear()
        flags = bytes(accepts(character) for accepts in self._program.accepts)
        kind = self._kind(kind_of(character))
        symbol = self._classes.setdefault((flags, kind), len(self._flags))
        if symbol == len(self._flags):
            self._flags.append(flags)
            self._kinds.append(kind)
        self._class_of[character] = symbol
        self._visits += len(flags)
        return symbol

    def _after(self, reached: _Set, symbol: int) -> _Set:
        """The set behind a character of a class."""
        flags, kind = self._flags[symbol], self._kinds[symbol]
        program = self._program
        active = self._closure(reached, kind)
        after = {
            program.following[state][0] for state in active if program.sets[state] >= 0 and flags[program.sets[state]]
        }
        if not after:
            return self._nothing
        members = tuple(sorted(after))
        known = self._sets.get((members, kind))
        if known is None:
            known = _Set(members, kind)
            self._remember(len(members))
            self._sets[members, kind] = known
        return known

    def _remember(self, size: int) -> None:
        """Count what is remembered, and forget all of it when it becomes too much."""
        self._remembered += size
        if self._remembered > _MOST_REMEMBERED:
            for each in self._sets.values():
                each.following.clear()
            self._first.following.clear()
            self._sets.clear()
            self._remembered = 0

    def _closure(self, reached: _Set, after: int) -> set[int]:
        """The states of a set, with those that are reached without a character; `after` is the next one's kind."""
        program, before = self._program, reached.kind
        sets, places, following = program.sets, program.places, program.following
        found: set[int] = set()
        waiting = list(reached.members)
        while waiting:
            state = waiting.pop()
            if state in found:
                continue
            found.add(state)
            if sets[state] < 0:
                holds = places[state]
                if holds is None or holds(before, after):
                    waiting += following[state]
        self._visits += len(found) + _SET_VISITS
        return found

    def _accepts(self, reached: _Set) -> bool:
        """Does a text match that ends here?"""
        if reached.accepts is None:
            reached.accepts = self._program.end in self._closure(reached, EDGE)
        return reached.accepts
