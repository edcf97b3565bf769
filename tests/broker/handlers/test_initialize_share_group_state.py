"""InitializeShareGroupState: a state begins, and begins again with a later epoch."""

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.share_state.state_requests import BATCH, initialize, only, read, write
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
