"""Regular expressions that clients send, matched in a time that grows with the text alone (as RE2 does for Kafka).

The standard library parses them; its matcher goes back and tries again, for longer than anybody waits, so that another
one is here: it takes all ways through the expression at once, character by character (Thompson). What needs to go back,
references and look-around, does not exist, and neither does it in RE2.
"""

import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

_MOST_STATES: Final = 20_000
"""Repeats with numbers are written out; beyond this, an expression is refused."""

_Accepts = Callable[[str], bool]
_Holds = Callable[[str, int], bool]


class RegularExpressionError(ValueError):
    """What is no regular expression, or one that needs more than there is; the message says why."""


class RegularExpression:
    """An expression that whole texts are held against. RegularExpressionError."""

    def __init__(self, pattern: str) -> None:
        # A state is (what its character has to be, None for no character; what has to hold there; the next states).
        self._states: list[tuple[_Accepts | None, _Holds | None, list[int]]] = []
        self._end = self._add(None, None, [])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # of Python's plans for its own expressions
                parsed: Any = importlib.import_module("re._parser").parse(pattern)
        except (re.error, OverflowError, RecursionError, Warning) as error:
            raise RegularExpressionError(f"{pattern!r}: {error}") from None
        self._flags: int = parsed.state.flags
        try:
            self._start = self._sequence(list(parsed), self._end)
        except RecursionError:
            raise RegularExpressionError(f"{pattern!r} is nested too deeply") from None

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

    def _add(self, accepts: _Accepts | None, holds: _Holds | None, following: list[int]) -> int:
        if len(self._states) >= _MOST_STATES:
            raise RegularExpressionError("it repeats too much")
        self._states.append((accepts, holds, following))
        return len(self._states) - 1

    def _sequence(self, items: list[Any], then: int) -> int:
        for item in reversed(items):
            then = self._item(item, then)
        return then

    def _item(self, item: Any, then: int) -> int:
        """The state that an element of the parsed expression begins with, when `then` follows it."""
        operator, argument = str(item[0]), item[1]
        if operator in {"LITERAL", "NOT_LITERAL", "ANY", "IN"}:
            return self._add(self._character(operator, argument), None, [then])
        if operator == "BRANCH":
            return self._add(None, None, [self._sequence(list(each), then) for each in argument[1]])
        if operator == "SUBPATTERN":
            _, added, removed, content = argument
            if added or removed:
                raise RegularExpressionError("flags within an expression are not known")
            return self._sequence(list(content), then)
        if operator in {"MAX_REPEAT", "MIN_REPEAT"}:  # which of them is taken matters to nobody here
            least, most, content = argument
            return self._repeat(least, most, list(content), then)
        if operator == "AT":
            return self._add(None, _anchor(str(argument)), [then])
        raise RegularExpressionError(f"{operator.lower().replace('_', ' ')} is not known")

    def _repeat(self, least: int, most: Any, items: list[Any], then: int) -> int:
        if str(most) == "MAXREPEAT":
            following: list[int] = [then]
            loop = self._add(None, None, following)
            following.append(self._sequence(items, loop))
            then = loop
        else:
            end = then
            for _ in range(most - least):
                then = self._add(None, None, [end, self._sequence(items, then)])
        for _ in range(least):
            then = self._sequence(items, then)
        return then

    def _character(self, operator: str, argument: Any) -> _Accepts:
        ignores_case = bool(self._flags & re.IGNORECASE)
        if operator == "ANY":
            return (lambda _: True) if self._flags & re.DOTALL else (lambda character: character != "\n")
        if operator == "IN":
            tests, negated = list(_members(argument)), str(argument[0][0]) == "NEGATE"
            return lambda character: any(test(character, ignores_case) for test in tests) is not negated
        wanted = chr(argument)
        negated = operator == "NOT_LITERAL"
        if ignores_case:
            wanted = wanted.casefold()
            return lambda character: (character.casefold() == wanted) is not negated
        return lambda character: (character == wanted) is not negated


def _members(items: Iterable[Any]) -> Iterator[Callable[[str, bool], bool]]:
    """The tests of a class of characters."""
    for item in items:
        operator, argument = str(item[0]), item[1]
        if operator == "LITERAL":
            yield _range(argument, argument)
        elif operator == "RANGE":
            yield _range(*argument)
        elif operator == "CATEGORY":
            yield _category(str(argument))


def _range(first: int, last: int) -> Callable[[str, bool], bool]:
    def holds(character: str, ignores_case: bool) -> bool:  # noqa: FBT001 - called by position only
        if first <= ord(character) <= last:
            return True
        return ignores_case and any(
            len(other) == 1 and first <= ord(other) <= last for other in (character.lower(), character.upper())
        )

    return holds


_CATEGORIES: Final = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


def _category(name: str) -> Callable[[str, bool], bool]:
    """CATEGORY_DIGIT, CATEGORY_NOT_DIGIT and so on; of ASCII alone, as RE2 has them."""
    kind = name.removeprefix("CATEGORY_")
    negated = kind.startswith("NOT_")
    member = re.compile(_CATEGORIES[kind.removeprefix("NOT_")], re.ASCII)
    return lambda character, _: (member.match(character) is not None) is not negated


def _anchor(name: str) -> _Holds:
    if name in {"AT_BEGINNING", "AT_BEGINNING_STRING"}:
        return lambda _, position: position == 0
    if name in {"AT_END", "AT_END_STRING"}:
        return lambda text, position: position == len(text)
    if name in {"AT_BOUNDARY", "AT_NON_BOUNDARY"}:
        wanted = name == "AT_BOUNDARY"
        return lambda text, position: (_is_word(text, position - 1) is not _is_word(text, position)) is wanted
    raise RegularExpressionError(f"{name} is not known")


def _is_word(text: str, position: int) -> bool:
    return 0 <= position < len(text) and (
        text[position] == "_" or (text[position].isascii() and text[position].isalnum())
    )
