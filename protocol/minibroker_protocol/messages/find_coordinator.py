"""FindCoordinator (key 10): which broker keeps a group or a transactional id."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    empty,
    message,
    since,
    structure,
    versions,
)


@message(versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """`key_type`: 0 for a group, 1 for a transactional id. From version 4 on, several keys of one type (KIP-699)."""

    key: Annotated[String, versions("0-3")] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[Array[String], since(4)] = field(default_factory=empty)


@structure
class Coordinator:
    """Where the coordinator of one key listens, or why there is none."""

    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: NullableString


@message(versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """One coordinator at the top up to version 3, one for each key later."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Annotated[Int16, versions("0-3")] = 0
    error_message: Annotated[NullableString, versions("1-3")] = None
    node_id: Annotated[Int32, versions("0-3")] = 0
    host: Annotated[String, versions("0-3")] = ""
    port: Annotated[Int32, versions("0-3")] = 0
    coordinators: Annotated[Array[Coordinator], since(4)] = field(default_factory=empty)
