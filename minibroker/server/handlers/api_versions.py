"""The ApiVersions handler."""

import re
from typing import Final

from minibroker.cluster.routing.routes import ROUTES
from minibroker.config.keys import ConfigResourceType
from minibroker.coordinators.groups.classic.client_quirks import EarlyJoiner, joins_early
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, handles
from minibroker.server.requests.requirements import NOTHING
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from minibroker_protocol.schema import first_version

with lazy:
    from minibroker.cluster import releases


_ALL_VERSIONS: Final = [
    ApiVersion(api_key=route.key, min_version=route.first, max_version=route.last) for route in ROUTES
]
_CLIENT_METRICS_APIS: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")
_FIRST_WITH_SOFTWARE_NAME: Final = first_version(ApiVersionsRequest, "client_software_name")
_FIRST_WITH_LEVEL_0: Final = 4
_NO_EPOCH: Final = -1
_FIRST_WITH_NODE: Final = first_version(ApiVersionsRequest, "node_id")
_NO_NODE: Final = -1
_FIRST_RELEASE_WITH_OWN_RANGE: Final = "2.4"


def _refuse_api_versions(_request: ApiVersionsRequest, _version: int, code: ErrorCode) -> ApiVersionsResponse:
    """Refuse a request. For an unknown version, list the supported versions of ApiVersions (KIP-511)."""
    is_unknown = code is ErrorCode.UNSUPPORTED_VERSION
    own_range = [row for row in _ALL_VERSIONS if is_unknown and row.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=code, api_keys=own_range)


@handles(ApiKey.API_VERSIONS, needs=NOTHING, refusal=Refusal(whole=_refuse_api_versions))
def api_versions(request: ApiVersionsRequest | None, call: Call) -> ApiVersionsResponse:
    """ApiVersions: return the supported versions of each API.

    Versions 0-5 are served. A request in a higher version gets a version 0 response with UNSUPPORTED_VERSION and the
    supported versions of ApiVersions, so that the client can try again (KIP-511). Since version 3, the request fails
    with INVALID_REQUEST unless the client's software name and version match Kafka's pattern. Since version 5, a client
    can name the cluster and node that it expects. If it has reached a different cluster or node, the error is
    REBOOTSTRAP_REQUIRED (KIP-1242).

    The client metrics APIs are listed only while a subscription exists, because clients that find these APIs use them,
    and some clients log that. Kafka lists the APIs while a plugin collects metrics.

    Feature levels are returned since version 3. Features that can be turned off, with a first level of 0, are listed as
    supported only since version 4, because older Java clients cannot read them (KIP-1022).

    Args:
        request: The request, or None if the client's version is not supported.
        call: The context of the request.
    """
    table = _served_versions(call)
    if request is None:
        has_ranges = not call.services.is_before(_FIRST_RELEASE_WITH_OWN_RANGE)
        own_range = [row for row in table if row.api_key == ApiKey.API_VERSIONS] if has_ranges else []
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own_range)
    if call.api_version >= _FIRST_WITH_SOFTWARE_NAME:
        name, software_version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE_NAME.match(name) and _SOFTWARE_NAME.match(software_version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
        call.session.software = name, software_version
    if call.services.works_around_clients:
        call.session.waited_fetches = 0
        if joins_early(call.session.software, call.client_id):
            call.session.early_joiner = EarlyJoiner()
    if call.api_version >= _FIRST_WITH_NODE:
        code = _routing_error(request, call)
        if code:
            return ApiVersionsResponse(error_code=code, api_keys=[])
    features = call.core.features
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=table,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=feature.first, max_version=feature.last)
            for name, feature in features.supported.items()
            if feature.first > 0 or call.api_version >= _FIRST_WITH_LEVEL_0
        ],
        finalized_features_epoch=features.epoch if features.supported else _NO_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.finalized.items()
        ],
    )


def _routing_error(request: ApiVersionsRequest, call: Call) -> ErrorCode:
    """Return the error for a client that expects a different cluster or node. It must name both or neither."""
    if (request.cluster_id is None) is not (request.node_id == _NO_NODE):
        return ErrorCode.INVALID_REQUEST
    if request.cluster_id is None:
        return ErrorCode.NONE
    actual = call.core.cluster.cluster_id, call.node.id
    return ErrorCode.NONE if actual == (request.cluster_id, request.node_id) else ErrorCode.REBOOTSTRAP_REQUIRED


def _served_versions(call: Call) -> list[ApiVersion]:
    """Return the versions that are served for each API, by this broker or by the release that it emulates."""
    served, configs = call.services.served, call.core.configs
    table = _ALL_VERSIONS
    if served is not None:
        versions = releases.advertised_versions(served, call.services.release).items()
        table = [ApiVersion(api_key=key, min_version=first, max_version=last) for key, (first, last) in versions]
    if configs.all_of(ConfigResourceType.CLIENT_METRICS):
        return table
    return [row for row in table if row.api_key not in _CLIENT_METRICS_APIS]
