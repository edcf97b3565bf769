"""Acknowledgements of a member, and how a change of batches is undone."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from minibroker.coordinators.share_partitions.in_flight import InFlightBatch, Piece
from minibroker_protocol.error_codes import ErrorCode


class Acknowledgement(NamedTuple):
    """Offsets that a member acknowledges, the last one included; `types` has one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


_RUNS_AT_ONCE: Final = 500
"""Types of offsets that are acknowledged in one step: some milliseconds."""


Undo = dict[InFlightBatch, list[Piece]]
"""The pieces that batches had before a change."""


class RefusedError(Exception):
    """An acknowledgement that changes nothing. `code` is the error that the member gets."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code)
        self.code = code


def note(undo: Undo, batch: InFlightBatch) -> None:
    """Remember the pieces of a batch, which is going to change."""
    if batch not in undo:
        undo[batch] = [piece.copy() for piece in batch.pieces]


def roll_back(undo: Undo) -> None:
    """Give batches the pieces that they had."""
    for batch, pieces in undo.items():
        batch.pieces = pieces
        batch.is_split = batch.is_split and len(pieces) > 1


def runs(acknowledged: Acknowledgement) -> Iterator[tuple[int, int, int]]:
    """The first and last offsets of equal types, and the type."""
    if len(acknowledged.types) == 1:
        yield acknowledged.first, acknowledged.last, acknowledged.types[0]
        return
    offset = acknowledged.first
    for kind, run in groupby(acknowledged.types):
        count = sum(1 for _ in run)
        yield offset, offset + count - 1, kind
        offset += count


def parts_of(acknowledgements: Sequence[Acknowledgement]) -> list[list[Acknowledgement]]:
    """Acknowledgements in parts, each for one step."""
    parts: list[list[Acknowledgement]] = []
    room = 0
    for each in acknowledgements:
        if room <= 0:
            parts.append([])
            room = _RUNS_AT_ONCE
        parts[-1].append(each)
        room -= len(each.types)
    return parts


def split(acknowledged: Acknowledgement) -> Iterator[Acknowledgement]:
    """The acknowledgement as it is, or one for each run of equal types where there are many types."""
    if len(acknowledged.types) <= _RUNS_AT_ONCE:
        yield acknowledged
        return
    for first, last, kind in runs(acknowledged):
        yield Acknowledgement(first, last, (kind,))
