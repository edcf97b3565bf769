"""Regular expressions that clients send, matched in a time that grows with the text alone (as RE2 does for Kafka).

The standard library's matcher goes back and tries again, for longer than anybody waits, so that another one is here: it
takes all ways through the expression at once, character by character (Thompson).
"""

from collections.abc import Callable, Iterable
from typing import Final

from minibroker.regular_expressions.characters import Accepts
from minibroker.regular_expressions.syntax import Anchor, Branches, Character, Node, RegularExpressionError, parse

__all__ = ["RegularExpression", "RegularExpressionError"]

_MOST_STATES: Final = 20_000
"""Repeats with numbers are written out; beyond this, an expression is refused."""

_Holds = Callable[[str, int], bool]


class RegularExpression:
    """An expression that whole texts are held against. RegularExpressionError."""

    def __init__(self, pattern: str) -> None:
        # A state is (what its character has to be, None for no character; what has to hold there; the next states).
        self._states: list[tuple[Accepts | None, _Holds | None, list[int]]] = []
        self._copies = 0
        self._end = self._add(None, None, [])
        self._start = self._node(parse(pattern), self._end)

    def matches(self, text: str) -> bool:
        """Does the whole of `text` match?"""
        current = self._reached([self._start], text, 0)
        for position, character in enumerate(text, 1):
            after: list[int] = []
            for number in current:
                accepts, _, following = self._states[number]
                if accepts is not None and accepts(character):
                    after += following
            current = self._reached(after, text, position)
            if not current:
                return False
        return self._end in current

    def _reached(self, states: Iterable[int], text: str, position: int) -> set[int]:
        """These states, and those that are reached from them without a character."""
        found: set[int] = set()
        open_states = list(states)
        while open_states:
            number = open_states.pop()
            if number in found:
                continue
            found.add(number)
            accepts, holds, following = self._states[number]
            if accepts is None and (holds is None or holds(text, position)):
                open_states += following
        return found

    def _add(self, accepts: Accepts | None, holds: _Holds | None, following: list[int]) -> int:
        if len(self._states) >= _MOST_STATES:
            raise RegularExpressionError("it repeats too much")
        self._states.append((accepts, holds, following))
        return len(self._states) - 1

    def _sequence(self, nodes: list[Node], then: int) -> int:
        for node in reversed(nodes):
            then = self._node(node, then)
        return then

    def _node(self, node: Node, then: int) -> int:
        """The state that a node begins with, when `then` follows it."""
        if isinstance(node, Character):
            return self._add(node.accepts, None, [then])
        if isinstance(node, Anchor):
            return self._add(None, _PLACES[node.place], [then])
        if isinstance(node, Branches):
            if len(node.sequences) == 1:
                return self._sequence(node.sequences[0], then)
            return self._add(None, None, [self._sequence(each, then) for each in node.sequences])
        if node.most is None:
            following: list[int] = [then]
            loop = self._add(None, None, following)
            following.append(self._copy(node.node, loop))
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._add(None, None, [end, self._copy(node.node, then)])
        for _ in range(node.least):
            then = self._copy(node.node, then)
        return then

    def _copy(self, node: Node, then: int) -> int:
        """As `_node`, of what is repeated, which may be nothing at all, many times over."""
        self._copies += 1
        if self._copies >= _MOST_STATES:
            raise RegularExpressionError("it repeats too much")
        return self._node(node, then)


def _is_word(text: str, position: int) -> bool:
    return 0 <= position < len(text) and (
        text[position] == "_" or (text[position].isascii() and text[position].isalnum())
    )


def _is_boundary(text: str, position: int) -> bool:
    return _is_word(text, position - 1) is not _is_word(text, position)


_PLACES: Final[dict[str, _Holds]] = {
    "text begins": lambda _, position: position == 0,
    "text ends": lambda text, position: position == len(text),
    "line begins": lambda text, position: position == 0 or text[position - 1] == "\n",
    "line ends": lambda text, position: position == len(text) or text[position] == "\n",
    "word boundary": _is_boundary,
    "no word boundary": lambda text, position: not _is_boundary(text, position),
}
