"""DeleteShareGroupState: a state goes."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.coordinators.share_state.state_requests import delete, initialize, only, read
from tests.broker.harness import Harness


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
