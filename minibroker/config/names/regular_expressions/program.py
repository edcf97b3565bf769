"""The states of a regular expression, made of its syntax tree (Thompson's construction)."""

from collections.abc import Callable
from typing import Final

from minibroker.config.names.regular_expressions.characters import Accepts
from minibroker.config.names.regular_expressions.syntax import Anchor, Branches, Character, Node, RegularExpressionError

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
