"""AlterConfigs: whole configurations instead of the present ones, each resource with its own outcome.

Versions 0-2. What is not named goes back to its default. Topics, brokers (an empty name for all of them), client
metrics and groups; what may be set, and with which error, is as in IncrementalAlterConfigs. Loggers are refused with
INVALID_REQUEST.
"""

from typing import Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker.server.requests.configs.changes import Resource, alter
from minibroker.server.requests.configs.resources import Change
from minibroker.server.requests.declarations import config_resources_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.messages.configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse

NAMES: Final = config_resources_at("resources")
NEEDS: Final = asked_by_handler("ALTER_CONFIGS on each topic or group; on the cluster, for brokers and client metrics")


def handle(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse | DelayedResponse:
    """Check and alter one resource after the other."""
    altered = [
        (
            Resource(resource.resource_type, resource.resource_name),
            [(config.name, Change.SET, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    responses = [
        AlterConfigsResourceResponse(
            error_code=code, error_message=message, resource_type=resource.kind, resource_name=resource.name
        )
        for resource, code, message in alter(altered, call, replaces=True, validate_only=request.validate_only)
    ]
    return hold(AlterConfigsResponse(responses=responses), request, call)
