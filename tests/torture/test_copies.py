"""The judgement on copies: each fault that it must find is planted once."""

from collections.abc import Sequence

import pytest

from tests.torture.copies import DOOMED, CopyLedger, Entry, Read, Turns, copy_of, input_value, walk
from tests.torture.ledger import TortureError


def a_ledger(fed: int = 10) -> CopyLedger:
    """A partition with so many inputs, all of them acknowledged."""
    ledger = CopyLedger("in", 1)
    for number in range(fed):
        ledger.deliver(ledger.feed(), number)
    return ledger


def copies(*numbers: int, first: int = 0, step: int = 1) -> list[Read]:
    """Copies of these inputs, at offsets from `first` on."""
    return [
        Read(first + step * place, copy_of("in", 1, number, input_value(1, number)))
        for place, number in enumerate(numbers)
    ]


def inputs(*numbers: int) -> list[Read]:
    """The copy that a reader of the input gets if it holds these."""
    return [Read(offset, input_value(1, number)) for offset, number in enumerate(numbers)]


def test_copies_in_order_with_gaps_between_their_offsets_are_right() -> None:
    ledger = a_ledger()
    ledger.check_copies(copies(0, 1, 2, 3, step=3))
    ledger.promise(4)
    ledger.check_promises()
    assert ledger.is_behind()
    ledger.check_copies(copies(4, 5, 6, 7, 8, 9, first=20))
    ledger.check_inputs(inputs(*range(10)))
    ledger.check_done(group_offset=10, stable_end=27, end=27)
    assert not ledger.is_behind()


def test_a_duplicate_is_found_and_both_its_places_are_named() -> None:
    ledger = a_ledger()
    ledger.check_copies(copies(0, 1, 2))
    with pytest.raises(TortureError, match="input 1 is there twice, at offsets 1 and 9"):
        ledger.check_copies(copies(1, 3, first=9))


def test_a_duplicate_right_behind_its_twin_is_found() -> None:
    with pytest.raises(TortureError, match="input 2 is there twice, at offsets 2 and 3"):
        a_ledger().check_copies(copies(0, 1, 2, 2, 3))


def test_a_loss_is_found_by_the_copy_that_follows_it() -> None:
    with pytest.raises(TortureError, match="input 2 is missing: offset 2 has that of 3"):
        a_ledger().check_copies(copies(0, 1, 3, 4))


def test_a_loss_at_the_end_is_found_when_all_is_done() -> None:
    ledger = a_ledger()
    ledger.check_copies(copies(*range(9)))
    with pytest.raises(TortureError, match="10 records were fed, and 9 were copied"):
        ledger.check_done(group_offset=10, stable_end=9, end=9)


def test_a_wrong_order_is_told_from_a_loss() -> None:
    with pytest.raises(TortureError, match=r"input 3 at offset 2 is before that of 2: out of order"):
        a_ledger().check_copies(copies(0, 1, 3, 2, 4))


def test_offsets_that_do_not_ascend_are_found() -> None:
    ledger = a_ledger()
    ledger.check_copies(copies(0, 1, first=5))
    with pytest.raises(TortureError, match="offset 6 was read after offset 6"):
        ledger.check_copies(copies(2, first=6))


def test_a_visible_record_of_an_aborted_transaction_is_found() -> None:
    (doomed,) = copies(2, first=2)
    with pytest.raises(TortureError, match="offset 2 of an aborted transaction is visible"):
        a_ledger().check_copies([*copies(0, 1), Read(2, doomed.value + DOOMED), *copies(2, first=3)])


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (b"anything", "no copy of this partition"),
        (copy_of("in", 0, 0, input_value(0, 0)), "no copy of this partition"),
        (copy_of("other", 1, 0, input_value(1, 0)), "no copy of this partition"),
        (copy_of("in", 1, 0, input_value(1, 7)), "never fed"),
        (copy_of("in", 1, 10, input_value(1, 10)), "never fed"),
    ],
)
def test_what_is_no_copy_is_found(value: bytes, fault: str) -> None:
    with pytest.raises(TortureError, match=fault):
        a_ledger().check_copies([Read(0, value)])


def test_an_acknowledged_commit_that_is_gone_is_found_at_once() -> None:
    ledger = a_ledger()
    ledger.check_copies(copies(0, 1))
    ledger.promise(5)
    ledger.promise(2)  # a slower copier reports late
    with pytest.raises(TortureError, match="up to input 4 were acknowledged as committed, but only those below 2"):
        ledger.check_promises()


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (inputs(0, 1, 1, 2), "offset 2"),
        (inputs(0, 2, 3), "offset 1"),
        (inputs(0, 1, 2), "3 are there"),
        (inputs(0, 1, 2, 3, 4), "5 are there"),
    ],
)
def test_an_input_that_is_not_as_it_was_fed_is_found(found: Sequence[Read], fault: str) -> None:
    with pytest.raises(TortureError, match=fault):
        a_ledger(4).check_inputs(found)


def test_an_input_that_is_acknowledged_at_a_wrong_place_is_found() -> None:
    ledger = CopyLedger("in", 1)
    first, second = ledger.feed(), ledger.feed()
    with pytest.raises(TortureError, match="before"):
        ledger.deliver(second, 0)
    ledger.deliver(first, None)
    with pytest.raises(TortureError, match="at offset 2, not 1"):
        ledger.deliver(second, 2)


@pytest.mark.parametrize(
    ("group_offset", "stable_end", "fault"),
    [(9, 12, "has committed offset 9"), (10, 11, "a transaction stays open: the last stable offset is 11")],
)
def test_at_the_end_the_group_has_committed_all_and_no_transaction_is_open(
    group_offset: int, stable_end: int, fault: str
) -> None:
    ledger = a_ledger()
    ledger.check_copies(copies(*range(10)))
    with pytest.raises(TortureError, match=fault):
        ledger.check_done(group_offset=group_offset, stable_end=stable_end, end=12)


def data(offset: int, value: bytes, producer_id: int = 1, epoch: int = 0) -> Entry:
    """A record in a transaction."""
    return Entry(offset, producer_id, epoch, is_transactional=True, records=[Read(offset, value)])


def marker(offset: int, *, commit: bool, producer_id: int = 1, epoch: int = 0) -> Entry:
    """The marker at the end of a transaction."""
    return Entry(offset, producer_id, epoch, is_transactional=True, records=None, is_commit=commit)


def test_a_walk_finds_what_readers_of_committed_records_get_in_order_of_offsets() -> None:
    walked = walk(
        [
            data(0, b"a"),
            data(1, b"x", producer_id=2),
            data(2, b"b", producer_id=3),
            marker(3, commit=True, producer_id=3),
            marker(4, commit=False, producer_id=2),
            marker(5, commit=True),
            Entry(6, -1, -1, is_transactional=False, records=[Read(6, b"plain")]),
            marker(7, commit=True),
        ]
    )
    assert walked.committed == [Read(0, b"a"), Read(2, b"b"), Read(6, b"plain")]
    assert (walked.open, walked.ended, walked.idle_markers) == ({}, 3, 1)


def test_a_walk_goes_to_the_end_of_the_last_batch() -> None:
    records = [Read(4, b"a"), Read(5, b"b")]
    assert walk([Entry(4, -1, -1, is_transactional=False, records=records)]).committed == records


def test_an_open_transaction_hides_what_lies_behind_its_start() -> None:
    walked = walk(
        [data(0, b"a"), marker(1, commit=True), data(2, b"b", producer_id=2), data(3, b"c"), marker(4, commit=True)]
    )
    assert walked.committed == [Read(0, b"a")]
    assert walked.open == {2: 2}


def test_records_of_a_fenced_producer_are_found() -> None:
    with pytest.raises(TortureError, match="was fenced at epoch 1, but records of its epoch 0 came at offset 2"):
        walk([data(0, b"a"), marker(1, commit=False, epoch=1), data(2, b"late")])


def test_a_marker_of_a_fenced_producer_is_found() -> None:
    with pytest.raises(TortureError, match="but a marker of its epoch 0 came at offset 1"):
        walk([data(0, b"a", epoch=1), marker(1, commit=True)])


def test_a_new_epoch_that_writes_into_an_open_transaction_is_found() -> None:
    with pytest.raises(TortureError, match="but its transaction of epoch 0 has not ended"):
        walk([data(0, b"a"), data(1, b"b", epoch=1)])


def test_offsets_that_go_back_within_a_log_are_found() -> None:
    with pytest.raises(TortureError, match="offset 1 follows offset 1"):
        walk([data(1, b"a"), data(1, b"b")])


def test_a_consumer_may_begin_anywhere_and_then_gets_one_offset_after_the_other() -> None:
    turns = Turns()
    assert [turns.take(0, offset) for offset in (7, 8, 9)] == [7, 8, 9]
    assert turns.take(1, 3) == 3
    assert turns.take(0, 7) == 10
    assert turns.take(1, 5) == 4
    turns.begin()
    assert turns.take(0, 2) == 2
