"""WriteShareGroupState: a state changes, unless the change is out of date."""

from minibroker.coordinators.share_state.state import MOST_BATCHES
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group_state import StateBatch
from tests.broker.coordinators.share_state.state_requests import BATCH, initialize, only, read, write
from tests.broker.harness import Harness


def test_what_is_out_of_date_changes_nothing(harness: Harness) -> None:
    assert only(write(harness, BATCH)).error_code == ErrorCode.INVALID_REQUEST, "nobody has begun it"
    initialize(harness, state_epoch=3)
    read(harness, leader_epoch=5)
    assert only(write(harness, BATCH, state_epoch=2, leader_epoch=5)).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert only(write(harness, BATCH, state_epoch=3, leader_epoch=4)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert only(read(harness, leader_epoch=5)).state_batches == []


def test_batches_below_the_start_are_forgotten(harness: Harness) -> None:
    initialize(harness)
    write(harness, BATCH)
    assert only(write(harness, start=12)).error_code == 0
    (left,) = only(read(harness)).state_batches
    assert (left.first_offset, left.last_offset) == (12, 14)


def test_a_state_has_at_most_10_000_batches(harness: Harness) -> None:
    def batches(begin: int, count: int) -> list[StateBatch]:
        return [
            StateBatch(first_offset=at, last_offset=at, delivery_state=0, delivery_count=1)
            for at in range(begin, begin + 2 * count, 2)
        ]

    initialize(harness)
    refused = only(write(harness, *batches(10, MOST_BATCHES + 1)))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "A share partition has at most 10,000 state batches.",
    )
    assert only(write(harness, *batches(10, MOST_BATCHES))).error_code == 0
    assert only(write(harness, *batches(10 + 2 * MOST_BATCHES, 1))).error_code == ErrorCode.INVALID_REQUEST
    assert only(write(harness, start=30)).error_code == 0
