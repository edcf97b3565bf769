"""AlterConfigs: whole configurations in the place of what there is, each resource with its own outcome.

Versions 0-2. What is not named goes back to its default. Topics, brokers (an empty name for all of them), client
metrics and groups; what may be set, and with which error, is as in IncrementalAlterConfigs. Loggers are refused with
INVALID_REQUEST.
"""

from minibroker.call import Call, Parked
from minibroker.dynamic_config.changes import Resource, outcomes
from minibroker.dynamic_config.places import Change
from minibroker.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(request: AlterConfigsRequest, call: Call) -> Steps[AlterConfigsResponse | Parked]:
    """Check and alter one resource after the other."""
    altered = [
        (Resource(each.resource_type, each.resource_name), [(c.name, Change.SET, c.value) for c in each.configs])
        for each in request.resources
    ]
    found = yield from outcomes(altered, call, replaces=True, validate_only=request.validate_only)
    return call.state.durability.hold(
        AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=ErrorCode.NONE if error is None else error.code,
                    error_message=None if error is None else error.message,
                    resource_type=resource.kind,
                    resource_name=resource.name,
                )
                for (resource, _), error in zip(altered, found, strict=True)
            ]
        )
    )
