"""The APIs that initialize, read, write, summarize and delete the states of share-partitions."""

import pytest

from minibroker.coordinators.share_state.state import MAX_BATCHES
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group_state import StateBatch
from tests.broker.coordinators.share_state.state_requests import BATCH, delete, initialize, only, read, summary, write
from tests.broker.harness import Harness


def test_a_state_begins_again_with_another_epoch(harness: Harness) -> None:
    assert only(initialize(harness, state_epoch=3)).error_code == 0
    assert only(write(harness, BATCH, state_epoch=3)).error_code == 0
    assert only(initialize(harness, state_epoch=4, start=2)).error_code == 0
    state = only(read(harness))
    assert (state.state_epoch, state.start_offset, state.state_batches) == (4, 2, [])


def test_an_earlier_epoch_is_fenced(harness: Harness) -> None:
    initialize(harness, state_epoch=3)
    refused = only(initialize(harness, state_epoch=2))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH.meaning,
    )


def test_a_request_without_a_group_has_an_empty_answer(harness: Harness) -> None:
    assert initialize(harness, group="").results == []


def test_only_the_coordinator_answers(several: Harness) -> None:
    assert only(initialize(several)).error_code == ErrorCode.NOT_COORDINATOR, "there is no topic yet"
    several.services.share_states.store.log.ensure()
    codes: set[int] = set()
    for node_id in several.core.cluster.nodes:
        several.asks = node_id
        codes.add(only(initialize(several)).error_code)
    assert codes == {0, ErrorCode.NOT_COORDINATOR}


def test_a_state_is_read_as_it_was_written(harness: Harness) -> None:
    assert only(read(harness)).error_code == ErrorCode.INVALID_REQUEST, "nobody has begun it"
    initialize(harness, state_epoch=3)
    write(harness, BATCH, state_epoch=3)
    state = only(read(harness))
    assert (state.error_code, state.state_epoch, state.start_offset, state.state_batches) == (0, 3, 10, [BATCH])


def test_an_earlier_leader_is_fenced(harness: Harness) -> None:
    initialize(harness)
    assert only(read(harness, leader_epoch=5)).error_code == 0
    assert only(read(harness, leader_epoch=4)).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_the_offsets_of_a_state_are_summed_up(harness: Harness) -> None:
    before = only(summary(harness))
    assert (before.error_code, before.start_offset, before.delivery_complete_count) == (0, -1, -1)
    initialize(harness, state_epoch=3)
    write(harness, BATCH, state_epoch=3)
    after = only(summary(harness))
    assert (after.state_epoch, after.start_offset, after.delivery_complete_count) == (3, 10, 5)
    assert only(summary(harness, version=0)).delivery_complete_count == -1, "version 0 has no place for it"


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
    (remaining,) = only(read(harness)).state_batches
    assert (remaining.first_offset, remaining.last_offset) == (12, 14)


def test_a_state_has_at_most_10_000_batches(harness: Harness) -> None:
    def batches(begin: int, count: int) -> list[StateBatch]:
        return [
            StateBatch(first_offset=at, last_offset=at, delivery_state=0, delivery_count=1)
            for at in range(begin, begin + 2 * count, 2)
        ]

    initialize(harness)
    refused = only(write(harness, *batches(10, MAX_BATCHES + 1)))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "A share partition has at most 10,000 state batches.",
    )
    assert only(write(harness, *batches(10, MAX_BATCHES))).error_code == 0
    assert only(write(harness, *batches(10 + 2 * MAX_BATCHES, 1))).error_code == ErrorCode.INVALID_REQUEST
    assert only(write(harness, start=30)).error_code == 0


def test_a_state_is_deleted(harness: Harness) -> None:
    assert only(delete(harness)).error_code == 0, "there is none"
    initialize(harness)
    assert only(delete(harness)).error_code == 0
    assert only(read(harness)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("partition", "code"), [(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (-1, ErrorCode.INVALID_REQUEST)]
)
def test_a_partition_that_there_is_not_has_no_state(harness: Harness, partition: int, code: ErrorCode) -> None:
    refused = only(delete(harness, partition=partition))
    assert (refused.partition, refused.error_code) == (partition, code)
    assert refused.error_message
