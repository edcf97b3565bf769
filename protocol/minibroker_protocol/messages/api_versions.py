"""ApiVersions (key 18): the APIs that a broker serves, and the versions of each API.

The response always has header version 0 (KIP-511), because a client reads it before it has the broker's versions.
"""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    empty,
    message,
    since,
    structure,
    tagged,
)


@message(versions="0-5", flexible="3+")
class ApiVersionsRequest:
    """A request for the APIs that the broker serves.

    From version 3 on, it contains the name and version of the client software. From version 5 on, it also contains
    the cluster id and the node id that the client expects (KIP-1242). They are null and -1 if the client expects
    none.
    """

    client_software_name: Annotated[String, since(3)] = ""
    client_software_version: Annotated[String, since(3)] = ""
    cluster_id: Annotated[NullableString, since(5)] = None
    node_id: Annotated[Int32, since(5)] = -1


@structure
class ApiVersion:
    """An API, with its lowest and highest supported version."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@structure
class SupportedFeatureKey:
    """A feature with the range of levels that the broker supports (KIP-584)."""

    name: String
    min_version: Int16
    max_version: Int16


@structure
class FinalizedFeatureKey:
    """A feature, with its current level in the cluster."""

    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(versions="0-5", flexible="3+")
class ApiVersionsResponse:
    """The served APIs and features."""

    error_code: Int16
    api_keys: Array[ApiVersion]
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    supported_features: Annotated[Array[SupportedFeatureKey], tagged(0, "3+"), since(3)] = empty()
    finalized_features_epoch: Annotated[Int64, tagged(1, "3+"), since(3)] = -1
    finalized_features: Annotated[Array[FinalizedFeatureKey], tagged(2, "3+"), since(3)] = empty()
    zk_migration_ready: Annotated[Bool, tagged(3, "3+"), since(3)] = False
