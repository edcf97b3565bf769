"""StreamsGroupTopologyDescriptionUpdate: a member hands in the description of its topology (KIP-1331).

Version 0. Kafka gives the description to the plugin that `group.streams.topology.description.plugin.class` names, and
comes with none. Without a plugin it answers UNSUPPORTED_VERSION, and asks no member for a description; so does
minibroker, which has no plugins.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_group
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.streams_group import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

NEEDS: Final = on_group(Operation.READ)


def handle(
    request: StreamsGroupTopologyDescriptionUpdateRequest, call: Call
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Say that there is no plugin (`GroupCoordinatorService.streamsGroupTopologyDescriptionUpdate`)."""
    del request
    message = "The broker has no streams group topology description plugin configured."
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message=message if call.services.groups.streams.is_enabled else None,
    )
