"""Large messages in pieces, so that work on a whole message can be done in slices.

A piece is a message of the same kind with a part of the elements. Only an element that is larger than a piece is cut:
it stands in several pieces then, and `join` puts them together again.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from minibroker_protocol.primitives import ZERO_UUID

_ELEMENTS_OF_A_PIECE: Final = 500
_IDENTITIES: Final = ("topic_id", "name", "topic", "topic_name", "transactional_id", "group_id", "producer_id")


def identity(element: Any) -> Any:
    """The name or id of an element such as a topic; None where it has none."""
    return next((named for name in _IDENTITIES if (named := getattr(element, name, ZERO_UUID)) != ZERO_UUID), None)


def is_large(message: Any) -> bool:
    """Whether a message has more elements than one piece."""
    return _size(message, _ELEMENTS_OF_A_PIECE + 1) > _ELEMENTS_OF_A_PIECE


def pieces_of(message: Any) -> Iterator[Any]:
    """The message in pieces of a few hundred elements; its other fields are in each of them."""
    lists = {name: elements for name, elements in _lists_of(message).items() if elements}
    if not lists:
        yield message
        return
    empty: dict[str, list[Any]] = {name: [] for name in lists}
    for name, elements in lists.items():
        piece: list[Any] = []
        size = 0
        has_lists = _has_lists(elements)
        for element in elements:
            for part in pieces_of(element) if has_lists and is_large(element) else (element,):
                piece.append(part)
                size += 1 + (_size(part) if has_lists else 0)
                if size >= _ELEMENTS_OF_A_PIECE:
                    yield dataclasses.replace(message, **{**empty, name: piece})
                    piece, size = [], 0
        if piece:
            yield dataclasses.replace(message, **{**empty, name: piece})


def join(whole: Any, piece: Any) -> None:
    """Put the elements of a piece behind those of `whole`, which held the pieces before it."""
    for name, elements in _lists_of(piece).items():
        known: list[Any] | None = getattr(whole, name)
        if not known:
            setattr(whole, name, elements)
            continue
        first = elements[0] if _has_lists(elements) else None
        if first is not None and identity(first) is not None and identity(first) == identity(known[-1]):
            join(known[-1], first)
            known += elements[1:]
        else:
            known += elements


def _size(message: Any, enough: int = _ELEMENTS_OF_A_PIECE) -> int:
    """The number of elements in all lists; counting ends at `enough`."""
    size = 0
    for elements in _lists_of(message).values():
        size += len(elements)
        for element in elements if _has_lists(elements) else ():
            if size >= enough:
                return size
            size += _size(element, enough - size)
    return size


def _lists_of(message: Any) -> dict[str, list[Any]]:
    return {
        field.name: value
        for field in dataclasses.fields(message)
        if isinstance(value := getattr(message, field.name), list)
    }


def _has_lists(elements: list[Any]) -> bool:
    return bool(elements) and dataclasses.is_dataclass(elements[0]) and bool(_lists_of(elements[0]))
