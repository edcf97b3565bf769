"""The table of all APIs that are served, in which versions; ApiVersions answers from it."""

from typing import Final, NamedTuple

from minibroker_protocol.api_keys import ApiKey


class Route(NamedTuple):
    """One served API: versions `first` to `last`; `module` and `message` name its declarations and its handler."""

    key: ApiKey
    first: int
    last: int
    module: str
    message: str


ROUTES: Final = (
    Route(ApiKey.PRODUCE, 0, 13, "produce", "Produce"),
    Route(ApiKey.FETCH, 0, 18, "fetch", "Fetch"),
    Route(ApiKey.LIST_OFFSETS, 0, 11, "list_offsets", "ListOffsets"),
    Route(ApiKey.METADATA, 0, 13, "metadata", "Metadata"),
    Route(ApiKey.LEADER_AND_ISR, 0, 7, "leader_and_isr", "LeaderAndIsr"),
    Route(ApiKey.STOP_REPLICA, 0, 4, "stop_replica", "StopReplica"),
    Route(ApiKey.UPDATE_METADATA, 0, 8, "update_metadata", "UpdateMetadata"),
    Route(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, "controlled_shutdown", "ControlledShutdown"),
    Route(ApiKey.OFFSET_COMMIT, 0, 10, "offset_commit", "OffsetCommit"),
    Route(ApiKey.OFFSET_FETCH, 0, 10, "offset_fetch", "OffsetFetch"),
    Route(ApiKey.FIND_COORDINATOR, 0, 6, "find_coordinator", "FindCoordinator"),
    Route(ApiKey.JOIN_GROUP, 0, 9, "join_group", "JoinGroup"),
    Route(ApiKey.HEARTBEAT, 0, 4, "heartbeat", "Heartbeat"),
    Route(ApiKey.LEAVE_GROUP, 0, 5, "leave_group", "LeaveGroup"),
    Route(ApiKey.SYNC_GROUP, 0, 5, "sync_group", "SyncGroup"),
    Route(ApiKey.DESCRIBE_GROUPS, 0, 6, "describe_groups", "DescribeGroups"),
    Route(ApiKey.LIST_GROUPS, 0, 5, "list_groups", "ListGroups"),
    Route(ApiKey.SASL_HANDSHAKE, 0, 1, "sasl_handshake", "SaslHandshake"),
    Route(ApiKey.API_VERSIONS, 0, 5, "api_versions", "ApiVersions"),
    Route(ApiKey.CREATE_TOPICS, 0, 7, "create_topics", "CreateTopics"),
    Route(ApiKey.DELETE_TOPICS, 0, 6, "delete_topics", "DeleteTopics"),
    Route(ApiKey.DELETE_RECORDS, 0, 2, "delete_records", "DeleteRecords"),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5, "init_producer_id", "InitProducerId"),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, "offset_for_leader_epoch", "OffsetForLeaderEpoch"),
    Route(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, "add_partitions_to_txn", "AddPartitionsToTxn"),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, "add_offsets_to_txn", "AddOffsetsToTxn"),
    Route(ApiKey.END_TXN, 0, 5, "end_txn", "EndTxn"),
    Route(ApiKey.WRITE_TXN_MARKERS, 0, 2, "write_txn_markers", "WriteTxnMarkers"),
    Route(ApiKey.TXN_OFFSET_COMMIT, 0, 6, "txn_offset_commit", "TxnOffsetCommit"),
    Route(ApiKey.DESCRIBE_ACLS, 0, 3, "describe_acls", "DescribeAcls"),
    Route(ApiKey.CREATE_ACLS, 0, 3, "create_acls", "CreateAcls"),
    Route(ApiKey.DELETE_ACLS, 0, 3, "delete_acls", "DeleteAcls"),
    Route(ApiKey.DESCRIBE_CONFIGS, 0, 4, "describe_configs", "DescribeConfigs"),
    Route(ApiKey.ALTER_CONFIGS, 0, 2, "alter_configs", "AlterConfigs"),
    Route(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, "alter_replica_log_dirs", "AlterReplicaLogDirs"),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 0, 5, "describe_log_dirs", "DescribeLogDirs"),
    Route(ApiKey.SASL_AUTHENTICATE, 0, 2, "sasl_authenticate", "SaslAuthenticate"),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3, "create_partitions", "CreatePartitions"),
    Route(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, "create_delegation_token", "CreateDelegationToken"),
    Route(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, "renew_delegation_token", "RenewDelegationToken"),
    Route(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, "expire_delegation_token", "ExpireDelegationToken"),
    Route(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, "describe_delegation_token", "DescribeDelegationToken"),
    Route(ApiKey.DELETE_GROUPS, 0, 3, "delete_groups", "DeleteGroups"),
    Route(ApiKey.ELECT_LEADERS, 0, 2, "elect_leaders", "ElectLeaders"),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, "incremental_alter_configs", "IncrementalAlterConfigs"),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, "alter_partition_reassignments", "AlterPartitionReassignments"),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "list_partition_reassignments", "ListPartitionReassignments"),
    Route(ApiKey.OFFSET_DELETE, 0, 0, "offset_delete", "OffsetDelete"),
    Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, "describe_client_quotas", "DescribeClientQuotas"),
    Route(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, "alter_client_quotas", "AlterClientQuotas"),
    Route(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, "describe_user_scram_credentials", "DescribeUserScramCredentials"
    ),
    Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, "alter_user_scram_credentials", "AlterUserScramCredentials"),
    Route(ApiKey.DESCRIBE_QUORUM, 0, 2, "describe_quorum", "DescribeQuorum"),
    Route(ApiKey.ALTER_PARTITION, 0, 3, "alter_partition", "AlterPartition"),
    Route(ApiKey.UPDATE_FEATURES, 0, 2, "update_features", "UpdateFeatures"),
    Route(ApiKey.ENVELOPE, 0, 0, "envelope", "Envelope"),
    Route(ApiKey.DESCRIBE_CLUSTER, 0, 2, "describe_cluster", "DescribeCluster"),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "describe_producers", "DescribeProducers"),
    Route(ApiKey.UNREGISTER_BROKER, 0, 0, "unregister_broker", "UnregisterBroker"),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, "describe_transactions", "DescribeTransactions"),
    Route(ApiKey.LIST_TRANSACTIONS, 0, 2, "list_transactions", "ListTransactions"),
    Route(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, "allocate_producer_ids", "AllocateProducerIds"),
    Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, "consumer_group_heartbeat", "ConsumerGroupHeartbeat"),
    Route(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, "consumer_group_describe", "ConsumerGroupDescribe"),
    Route(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, "get_telemetry_subscriptions", "GetTelemetrySubscriptions"),
    Route(ApiKey.PUSH_TELEMETRY, 0, 0, "push_telemetry", "PushTelemetry"),
    Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, "list_config_resources", "ListConfigResources"),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, "describe_topic_partitions", "DescribeTopicPartitions"),
    Route(ApiKey.ADD_RAFT_VOTER, 0, 1, "add_raft_voter", "AddRaftVoter"),
    Route(ApiKey.REMOVE_RAFT_VOTER, 0, 0, "remove_raft_voter", "RemoveRaftVoter"),
    Route(ApiKey.UNREGISTER_CONTROLLER, 0, 0, "unregister_controller", "UnregisterController"),
)
