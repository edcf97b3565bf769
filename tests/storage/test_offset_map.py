"""The map from keys to their newest offsets."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_storage.cleaner.offset_map import NOT_FOUND, OffsetMap, max_entries, slots_for

KEYS = st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=200)


def test_the_newest_offset_of_a_key_is_found() -> None:
    offsets = OffsetMap(10)
    assert offsets.put_all([b"a", b"b", b"a"], [5, 6, 9])
    assert offsets.find_newest([b"a", b"b", b"c"]) == [9, 6, NOT_FOUND]
    assert offsets.entries == 2


def test_records_without_a_key_are_passed_over_and_found_nowhere() -> None:
    offsets = OffsetMap(2)
    assert offsets.put_all([None, b"", None], [1, 2, 3])
    assert offsets.find_newest([None, b""]) == [NOT_FOUND, 2]
    assert offsets.entries == 1


def test_records_before_the_first_offset_are_passed_over() -> None:
    offsets = OffsetMap(5)
    assert offsets.put_all([b"a", b"b"], [7, 8], 8)
    assert offsets.find_newest([b"a", b"b"]) == [NOT_FOUND, 8]


def test_a_full_map_says_so_before_the_next_key_even_if_it_knows_that() -> None:
    offsets = OffsetMap(2)
    assert offsets.put_all([b"a", b"b"], [1, 2])
    offsets.latest_offset = 2
    assert offsets.put_all([None], [3])
    assert not offsets.put_all([None, b"a"], [4, 5])
    assert offsets.find_newest([b"a"]) == [1]
    assert offsets.latest_offset == 2


def test_a_map_that_fills_up_in_the_midst_of_a_batch_knows_the_last_offset_that_it_took() -> None:
    offsets = OffsetMap(2)
    assert not offsets.put_all([b"a", None, b"b", None, b"c"], [1, 2, 3, 4, 5])
    assert offsets.latest_offset == 3


@given(KEYS)
def test_a_map_is_a_dictionary_that_forgets_its_keys(keys: list[bytes | None]) -> None:
    offsets = OffsetMap(200)
    assert offsets.put_all(keys, range(len(keys)))
    expected = {key: offset for offset, key in enumerate(keys) if key is not None}
    lookups = [*keys, b"never put, and longer than the others"]
    assert offsets.find_newest(lookups) == [
        NOT_FOUND if key is None else expected.get(key, NOT_FOUND) for key in lookups
    ]
    assert offsets.entries == len(expected)


def test_memory_is_taken_by_the_number_of_keys_and_not_by_their_length() -> None:
    offsets = OffsetMap(1000)
    assert offsets.put_all((bytes([number % 256]) * 10_000 + b"%d" % number for number in range(1000)), range(1000))
    assert sum(map(sys.getsizeof, (getattr(offsets, name) for name in offsets.__slots__))) < 2048 * 16 * 1.1


@pytest.mark.parametrize(
    ("buffer", "load_factor", "expected"),
    [(128 * 1024 * 1024, 0.9, 5_033_164), (1024 * 1024, 0.9, 39_321), (48, 1.0, 2), (23, 1.0, 0)],
)
def test_as_many_keys_fit_as_into_the_buffer_of_kafka(buffer: int, load_factor: float, expected: int) -> None:
    assert max_entries(buffer, load_factor) == expected


def test_the_map_for_the_default_buffer_takes_no_more_than_that() -> None:
    assert slots_for(5_033_164) * 16 == 128 * 1024 * 1024
    assert all(slots_for(limit) * 3 >= limit * 4 for limit in range(1, 200))
