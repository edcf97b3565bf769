"""DescribeCluster (key 60): which brokers there are, and which of them is the controller (KIP-700)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    message,
    since,
    structure,
)


@message(versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """A request for the cluster's nodes; `endpoint_type` is 1 for brokers and 2 for controllers (KIP-919).

    From version 2 on brokers that are registered but down are listed, too, if the client wants them (KIP-1073).
    """

    include_cluster_authorized_operations: Bool
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[Bool, since(2)] = False


@structure
class DescribeClusterBroker:
    """One broker and where this client finds it."""

    broker_id: Int32
    host: String
    port: Int32
    rack: NullableString = None
    is_fenced: Annotated[Bool, since(2)] = False


@message(versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """The cluster; `cluster_authorized_operations` is a set of bits, and -2**31 if it was not asked for."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: String
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -2147483648
