"""ApiVersions (key 18): which APIs a broker serves, and in which versions.

Its response header is always version 0 (KIP-511), since a client reads it before it knows what the broker speaks.
"""

from dataclasses import field
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
    """From version 3 on a client says what software it is.

    From version 5 on it also says which cluster and which node it believes to have reached (KIP-1242); null and -1 when
    it does not know.
    """

    client_software_name: Annotated[String, since(3)] = ""
    client_software_version: Annotated[String, since(3)] = ""
    cluster_id: Annotated[NullableString, since(5)] = None
    node_id: Annotated[Int32, since(5)] = -1


@structure
class ApiVersion:
    """One API with its inclusive version range."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@structure
class SupportedFeatureKey:
    """A feature with the levels the broker could run (KIP-584)."""

    name: String
    min_version: Int16
    max_version: Int16


@structure
class FinalizedFeatureKey:
    """A feature with the levels the cluster runs now."""

    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(versions="0-5", flexible="3+")
class ApiVersionsResponse:
    """The table of served APIs."""

    error_code: Int16
    api_keys: Array[ApiVersion]
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    supported_features: Annotated[Array[SupportedFeatureKey], tagged(0, "3+"), since(3)] = field(default_factory=empty)
    finalized_features_epoch: Annotated[Int64, tagged(1, "3+"), since(3)] = -1
    finalized_features: Annotated[Array[FinalizedFeatureKey], tagged(2, "3+"), since(3)] = field(default_factory=empty)
    zk_migration_ready: Annotated[Bool, tagged(3, "3+"), since(3)] = False
