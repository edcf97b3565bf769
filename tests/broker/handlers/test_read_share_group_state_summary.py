"""ReadShareGroupStateSummary: the offsets of a state."""

from tests.broker.coordinators.share_state.state_requests import BATCH, initialize, only, summary, write
from tests.broker.harness import Harness


def test_the_offsets_of_a_state_are_summed_up(harness: Harness) -> None:
    before = only(summary(harness))
    assert (before.error_code, before.start_offset, before.delivery_complete_count) == (0, -1, -1)
    initialize(harness, state_epoch=3)
    write(harness, BATCH, state_epoch=3)
    after = only(summary(harness))
    assert (after.state_epoch, after.start_offset, after.delivery_complete_count) == (3, 10, 5)
    assert only(summary(harness, version=0)).delivery_complete_count == -1, "version 0 has no place for it"
