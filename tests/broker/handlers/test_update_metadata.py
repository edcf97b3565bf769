"""UpdateMetadata: a controller of the past is refused."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import UpdateMetadataRequest
from tests.broker.harness import Harness


@pytest.mark.parametrize("version", range(9))
def test_every_controller_is_one_of_the_past(harness: Harness, version: int) -> None:
    request = UpdateMetadataRequest(controller_id=2, controller_epoch=1_000_000, live_brokers=[])
    assert harness.ask(request, version).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert [node.id for node in harness.core.cluster.up] == [1]
