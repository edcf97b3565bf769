"""Checking the only record of a batch by its form, compared with the walk over its fields."""

from collections.abc import Generator, Mapping
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.records import produced_batch
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import RECORD_BATCH_OVERHEAD
from minibroker_protocol.records.produced_batch import MAX_FORMS, check_record
from minibroker_protocol.records.record import NewRecord, walk_records
from tests.protocol.records.test_record_runs import outcome

NULLABLE_BYTES = st.none() | st.binary(max_size=200)


@pytest.fixture(autouse=True)
def forms() -> Generator[Mapping[int, object]]:
    """Clear the cached forms."""
    known = produced_batch._forms
    known.by_size.clear()
    known.last_size = -1
    yield known.by_size
    known.by_size.clear()


def batch(key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> bytearray:
    return build_batch([NewRecord(key, value, 1_700_000_000_000, headers)])


def check(made: bytes | bytearray) -> int | str | None:
    """Return the result or the error message of the check by form."""
    return outcome(lambda: check_record(memoryview(made), RECORD_BATCH_OVERHEAD))


def walk(made: bytes | bytearray) -> int | str | None:
    """Return the result or the error message of the walk."""
    return outcome(lambda: walk_records(memoryview(made), RECORD_BATCH_OVERHEAD, 1))


@given(key=NULLABLE_BYTES, value=NULLABLE_BYTES, data=st.data())
def test_each_spoilt_byte_has_the_outcome_of_the_walk(
    key: bytes | None, value: bytes | None, data: st.DataObject
) -> None:
    made = batch(key, value)
    for _ in range(2):
        assert check(made) == 0
    assert len(made) in produced_batch._forms.by_size
    for position in range(RECORD_BATCH_OVERHEAD, len(made)):
        spoilt = bytearray(made)
        spoilt[position] = data.draw(st.integers(0, 255))
        assert check(spoilt) == walk(spoilt)


def test_a_record_of_a_known_form_is_not_walked() -> None:
    check(batch(b"key", b"value"))
    check(batch(b"abc", b"other"))
    with patch.object(produced_batch, "walk_records", side_effect=AssertionError):
        assert check(batch(b"xyz", b"third")) == 0
        with pytest.raises(AssertionError):
            check(batch(b"keys", b"four"))  # The sizes are equal, but the fields are not.


def test_a_form_has_its_timestamp_delta() -> None:
    late = batch(None, b"value")
    late[RECORD_BATCH_OVERHEAD + 2] = 14  # 7 in zig-zag encoding
    for _ in range(3):
        assert check(late) == walk(late) == 7
    assert check(batch(None, b"value")) == 0


def test_sizes_that_come_once_are_not_remembered(forms: Mapping[int, object]) -> None:
    for _ in range(3):
        for size in range(5):
            check(batch(None, b"v" * size))
    assert not forms


def test_records_with_headers_are_walked(forms: Mapping[int, object]) -> None:
    for _ in range(3):
        assert check(batch(b"key", b"value", (("name", b"content"),))) == 0
    assert not forms


def test_only_so_many_forms_are_remembered(forms: Mapping[int, object]) -> None:
    for size in range(MAX_FORMS + 3):
        for _ in range(2):
            check(batch(None, b"v" * size))
    assert len(forms) == 3
