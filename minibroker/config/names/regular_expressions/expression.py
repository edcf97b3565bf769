"""Regular expressions sent by clients, matched by a lazy DFA as in RE2.

Python's own matcher backtracks, which can take exponential time. This matcher follows all paths through the expression
at the same time. It caches, for each set of states and each character, the set that follows. Once the sets are cached,
a text costs one look-up per character. The sizes of the program and of the cache are limited.
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
