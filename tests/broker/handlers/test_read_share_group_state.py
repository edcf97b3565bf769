"""ReadShareGroupState: a state as it was written, for the latest leader alone."""

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.share_state.state_requests import BATCH, initialize, only, read, write
from tests.broker.harness import Harness


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
