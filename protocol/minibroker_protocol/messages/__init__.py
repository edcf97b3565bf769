"""The messages of Kafka's protocol, with one module per group of related APIs.

Each module declares the requests and responses of its APIs, and the structures in them. A module is imported when one
of its APIs is first used. Nothing is re-exported here, to keep start-up fast.
"""

from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from minibroker_protocol.api_keys import ApiKey

_APIS: Final = {
    "acls": "DescribeAcls CreateAcls DeleteAcls",
    "api_versions": "ApiVersions",
    "client_quotas": "DescribeClientQuotas AlterClientQuotas",
    "cluster": (
        "DescribeCluster DescribeQuorum UpdateFeatures UnregisterBroker AddRaftVoter RemoveRaftVoter "
        "UnregisterController"
    ),
    "configs": "DescribeConfigs AlterConfigs IncrementalAlterConfigs ListConfigResources",
    "consumer_group": "ConsumerGroupHeartbeat ConsumerGroupDescribe",
    "delegation_tokens": "CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken",
    "describe_transactions": "DescribeTransactions ListTransactions DescribeProducers",
    "fetch": "Fetch",
    "groups": "FindCoordinator JoinGroup SyncGroup Heartbeat LeaveGroup DescribeGroups ListGroups DeleteGroups",
    "inter_broker": (
        "LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown AlterPartition Envelope AllocateProducerIds"
    ),
    "log_dirs": "DescribeLogDirs AlterReplicaLogDirs",
    "log_offsets": "ListOffsets OffsetForLeaderEpoch DeleteRecords",
    "metadata": "Metadata DescribeTopicPartitions",
    "offsets": "OffsetCommit OffsetFetch OffsetDelete",
    "produce": "Produce",
    "reassignments": "AlterPartitionReassignments ListPartitionReassignments ElectLeaders",
    "sasl": "SaslHandshake SaslAuthenticate",
    "scram_credentials": "DescribeUserScramCredentials AlterUserScramCredentials",
    "share_group": (
        "ShareGroupHeartbeat ShareGroupDescribe DescribeShareGroupOffsets AlterShareGroupOffsets "
        "DeleteShareGroupOffsets"
    ),
    "share_group_state": (
        "InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState "
        "ReadShareGroupStateSummary"
    ),
    "share_records": "ShareFetch ShareAcknowledge",
    "streams_group": "StreamsGroupDescribe StreamsGroupTopologyDescriptionUpdate",
    "streams_group_heartbeat": "StreamsGroupHeartbeat",
    "telemetry": "GetTelemetrySubscriptions PushTelemetry",
    "topics": "CreateTopics DeleteTopics CreatePartitions",
    "transactions": "InitProducerId AddPartitionsToTxn AddOffsetsToTxn TxnOffsetCommit EndTxn WriteTxnMarkers",
}
_KEYS: Final = {key.message: key for key in ApiKey}
MODULES: Final = {_KEYS[api]: module for module, apis in _APIS.items() for api in apis.split()}
"""The module that declares the messages of each API. The module of its handler in the broker has the same name."""


class Messages(NamedTuple):
    """The request and response classes of an API; `api` is its name, such as "ListOffsets"."""

    api: str
    request: type[Any]
    response: type[Any]


@cache
def messages_of(key: ApiKey) -> Messages:
    """Import the module of an API and return its request and response classes.

    Raises:
        KeyError: no messages are declared for this API.
    """
    module = import_module(f"{__name__}.{MODULES[key]}")
    return Messages(key.message, getattr(module, f"{key.message}Request"), getattr(module, f"{key.message}Response"))


def key_of(request: type[Any]) -> ApiKey:
    """Return the API key of a request class."""
    return _KEYS[request.__name__.removesuffix("Request")]
