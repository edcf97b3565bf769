"""StreamsGroupTopologyDescriptionUpdate (key 93): store the description of a topology with its streams group."""

from minibroker_protocol.messages.topology_description import TopologyDescription
from minibroker_protocol.schema import (
    Int16,
    Int32,
    NullableString,
    String,
    message,
)


@message(versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateRequest:
    """The description of the topology of `topology_epoch`, from a member of the group."""

    group_id: String
    member_id: String
    topology_epoch: Int32
    topology_description: TopologyDescription


@message(versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateResponse:
    """The outcome; UNKNOWN_MEMBER_ID if the member has left."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
