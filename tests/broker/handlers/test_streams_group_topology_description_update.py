"""StreamsGroupTopologyDescriptionUpdate: a broker without a plugin takes no descriptions."""

from minibroker.cluster.features import STREAMS_VERSION
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.streams_group import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from tests.broker.handlers.streams_group_requests import StreamsGroupClient
from tests.broker.harness import Harness


def test_a_description_is_refused_for_want_of_a_plugin(harness: Harness) -> None:
    StreamsGroupClient(harness).settle(["a"])
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id="g",
        member_id="a",
        topology_epoch=0,
        topology_description=TopologyDescription(subtopologies=[], global_stores=[]),
    )
    answer = harness.ask(request, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message == "The broker has no streams group topology description plugin configured."
    harness.core.features.finalize({STREAMS_VERSION: 0})
    answer = harness.ask(request, 0)
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
