"""Handles ApiVersions."""

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


_ALL: Final = [ApiVersion(api_key=route.key, min_version=route.first, max_version=route.last) for route in ROUTES]
_OF_CLIENT_METRICS: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")
_FIRST_WITH_SOFTWARE_NAME: Final = first_version(ApiVersionsRequest, "client_software_name")
_FIRST_WITH_LEVEL_0: Final = 4
_NO_EPOCH: Final = -1
_FIRST_WITH_NODE: Final = first_version(ApiVersionsRequest, "node_id")
_NO_NODE: Final = -1
_FIRST_RELEASE_WITH_OWN_RANGE: Final = "2.4"


def _refuse_api_versions(_request: ApiVersionsRequest, _version: int, code: ErrorCode) -> ApiVersionsResponse:
    """The response to an unknown version has the versions in which a client may ask (KIP-511)."""
    is_unknown = code is ErrorCode.UNSUPPORTED_VERSION
    own_range = [row for row in _ALL if is_unknown and row.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=code, api_keys=own_range)


@handles(ApiKey.API_VERSIONS, needs=NOTHING, refusal=Refusal(whole=_refuse_api_versions))
def api_versions(request: ApiVersionsRequest | None, call: Call) -> ApiVersionsResponse:
    """ApiVersions: the dispatch table, for clients.

    Versions 0-5. A higher version is answered in the form of version 0 with UNSUPPORTED_VERSION and the range of
    ApiVersions itself (KIP-511), so that the client can ask again. From version 3 on the client's software name and
    version must look like names, otherwise INVALID_REQUEST. A client of version 5 may say which cluster and node it
    means to talk to; if it has reached another one, it is to bootstrap again (REBOOTSTRAP_REQUIRED, KIP-1242).

    The APIs of client metrics are listed while there is a subscription: clients that see them ask, and some log
    that they have. Kafka lists them while it has a plugin that takes them.

    Feature levels are in versions from 3 on; those that can be turned off, whose first level is 0, count as
    supported from version 4 on only, since older Java clients cannot read them (KIP-1022).

    Answer with the table; `request` is None when the client's version is not known here.
    """
    release = call.services.release
    table = _table(call)
    if request is None:
        has_ranges = release is None or release.is_at_least(_FIRST_RELEASE_WITH_OWN_RANGE)
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
        misrouted = _misrouted(request, call)
        if misrouted:
            return ApiVersionsResponse(error_code=misrouted, api_keys=[])
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


def _misrouted(request: ApiVersionsRequest, call: Call) -> ErrorCode:
    """The error for a client that believes in another cluster or node; it names both of them, or neither."""
    if (request.cluster_id is None) is not (request.node_id == _NO_NODE):
        return ErrorCode.INVALID_REQUEST
    if request.cluster_id is None:
        return ErrorCode.NONE
    found = call.core.cluster.cluster_id, call.node.id
    return ErrorCode.NONE if found == (request.cluster_id, request.node_id) else ErrorCode.REBOOTSTRAP_REQUIRED


def _table(call: Call) -> list[ApiVersion]:
    """The versions of the dispatch table, or those of a release."""
    served, configs = call.services.served, call.core.configs
    table = _ALL
    if served is not None:
        versions = releases.advertised(served, call.services.release).items()
        table = [ApiVersion(api_key=key, min_version=first, max_version=last) for key, (first, last) in versions]
    if configs.all_of(ConfigResourceType.CLIENT_METRICS):
        return table
    return [row for row in table if row.api_key not in _OF_CLIENT_METRICS]
