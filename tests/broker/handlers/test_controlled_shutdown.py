"""ControlledShutdown: nobody asks for it over the network."""

import struct

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.inter_broker import ControlledShutdownRequest
from tests.broker.harness import Harness, bytes_of


@pytest.mark.parametrize("version", range(1, 4))
def test_the_controller_is_elsewhere(harness: Harness, version: int) -> None:
    response = harness.ask(ControlledShutdownRequest(broker_id=1), version)
    assert (response.error_code, response.remaining_partitions) == (ErrorCode.STALE_CONTROLLER_EPOCH, [])


def test_version_0_has_no_client_id_in_its_header(harness: Harness) -> None:
    frame = bytearray(struct.pack(">hhii", ApiKey.CONTROLLED_SHUTDOWN, 0, 77, 1))
    outcome = accept(memoryview(frame), harness.session())
    assert isinstance(outcome, Answer)
    assert bytes_of(outcome) == struct.pack(">iihi", 10, 77, ErrorCode.STALE_CONTROLLER_EPOCH, 0)
