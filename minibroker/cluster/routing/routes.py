"""The dispatch table: all served APIs and their versions. A new API gets a `Route` here; see `server/handlers`.

`releases` reads the versions that Kafka's releases serve from this table.
"""

from typing import Final, NamedTuple

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode


class UnservedRequestError(Exception):
    """A request that has no response in the protocol, because its API or version is unknown.

    As in Kafka, the connection is closed.
    """


class RefusedRequestError(Exception):
    """The refusal of a whole request. The client gets the API's error response with this code and message.

    Attributes:
        code: The error code.
        message: The error message, or None.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


class Route(NamedTuple):
    """One served API.

    Attributes:
        key: The API key.
        absent: The error that makes clients try again while the broker knows no leader, coordinator or controller for
            the request. NONE for an API that every broker serves.
        first: The first served version.
        last: The last served version.
        history: The versions that Kafka's releases list, as "release: first-last" for each release that changed
            them. A "-" in place of the versions marks the release that dropped the API. Empty for an API that no
            release lists.
        unstable: The last version that releases since 4.1 list only with `unstable.api.versions.enable`, as
            "release: last".
    """

    key: ApiKey
    absent: ErrorCode
    first: int
    last: int
    history: str = ""
    unstable: str = ""

    @property
    def message(self) -> str:
        """The name that the request and response of the API share, such as "ListOffsets"."""
        return self.key.message


_NONE: Final = ErrorCode.NONE
_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_COORDINATOR: Final = ErrorCode.NOT_COORDINATOR
_CONTROLLER: Final = ErrorCode.NOT_CONTROLLER

# fmt: off
ROUTES: Final = (
    Route(
        ApiKey.PRODUCE, _LEADER, 0, 13,
        "0.8.2: 0, 0.9: 0-1, 0.10.0: 0-2, 0.11: 0-3, 1.0: 0-5, 2.0: 0-6, 2.1: 0-7, 2.4: 0-8, 2.8: 0-9, 3.7: 0-10, "
        "3.8: 0-11, 4.0: 3-12, 4.1: 3-13",
    ),
    Route(
        ApiKey.FETCH, _LEADER, 0, 18,
        "0.8.2: 0, 0.9: 0-1, 0.10.0: 0-2, 0.10.1: 0-3, 0.11: 0-5, 1.0: 0-6, 1.1: 0-7, 2.0: 0-8, 2.1: 0-10, "
        "2.3: 0-11, 2.7: 0-12, 3.1: 0-13, 3.5: 0-15, 3.7: 0-16, 3.9: 0-17, 4.0: 4-17, 4.1: 4-18",
    ),
    Route(
        ApiKey.LIST_OFFSETS, _LEADER, 0, 11,
        "0.8.2: 0, 0.10.1: 0-1, 0.11: 0-2, 2.0: 0-3, 2.1: 0-4, 2.2: 0-5, 2.8: 0-6, 3.0: 0-7, 3.5: 0-8, 3.9: 0-9, "
        "4.0: 1-10, 4.2: 1-11",
    ),
    Route(
        ApiKey.METADATA, _NONE, 0, 13,
        "0.8.2: 0, 0.10.0: 0-1, 0.10.1: 0-2, 0.11: 0-4, 1.0: 0-5, 2.0: 0-6, 2.1: 0-7, 2.3: 0-8, 2.4: 0-9, 2.8: 0-11, "
        "3.1: 0-12, 4.0: 0-13",
    ),
    Route(
        ApiKey.LEADER_AND_ISR, _CONTROLLER, 0, 7,
        "0.8.2: 0, 1.0: 0-1, 2.2: 0-2, 2.4: 0-4, 2.8: 0-5, 3.2: 0-6, 3.3: -",
    ),
    Route(ApiKey.STOP_REPLICA, _CONTROLLER, 0, 4, "0.8.2: 0, 2.2: 0-1, 2.4: 0-2, 2.6: 0-3, 3.3: -"),
    Route(
        ApiKey.UPDATE_METADATA, _CONTROLLER, 0, 8,
        "0.8.2: 0, 0.9: 0-1, 0.10.0: 0-2, 0.10.2: 0-3, 1.0: 0-4, 2.2: 0-5, 2.4: 0-6, 2.8: 0-7, 3.3: -",
    ),
    Route(ApiKey.CONTROLLED_SHUTDOWN, _CONTROLLER, 0, 3, "0.8.2: 0, 0.9: 1, 1.0: 0-1, 2.2: 0-2, 2.4: 0-3, 3.3: -"),
    Route(
        ApiKey.OFFSET_COMMIT, _COORDINATOR, 0, 10,
        "0.8.2: 0-1, 0.9: 0-2, 0.11: 0-3, 2.0: 0-4, 2.1: 0-6, 2.3: 0-7, 2.4: 0-8, 3.7: 0-9, 4.0: 2-9, 4.2: 2-10",
        unstable="4.1: 10",
    ),
    Route(
        ApiKey.OFFSET_FETCH, _COORDINATOR, 0, 10,
        "0.8.2: 0-1, 0.10.2: 0-2, 0.11: 0-3, 2.0: 0-4, 2.1: 0-5, 2.4: 0-6, 2.5: 0-7, 3.0: 0-8, 3.7: 0-9, 4.0: 1-9, "
        "4.2: 1-10",
        unstable="4.1: 10",
    ),
    Route(
        ApiKey.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, 0, 6,
        "0.8.2: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 3.0: 0-4, 3.8: 0-5, 3.9: 0-6",
    ),
    Route(
        ApiKey.JOIN_GROUP, _COORDINATOR, 0, 9,
        "0.9: 0, 0.10.1: 0-1, 0.11: 0-2, 2.0: 0-3, 2.2: 0-4, 2.3: 0-5, 2.4: 0-6, 2.5: 0-7, 3.2: 0-9",
    ),
    Route(ApiKey.HEARTBEAT, _COORDINATOR, 0, 4, "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-4"),
    Route(ApiKey.LEAVE_GROUP, _COORDINATOR, 0, 5, "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-4, 3.2: 0-5"),
    Route(ApiKey.SYNC_GROUP, _COORDINATOR, 0, 5, "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-4, 2.5: 0-5"),
    Route(ApiKey.DESCRIBE_GROUPS, _COORDINATOR, 0, 6, "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-5, 4.0: 0-6"),
    Route(ApiKey.LIST_GROUPS, _COORDINATOR, 0, 5, "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 2.6: 0-4, 3.8: 0-5"),
    Route(ApiKey.SASL_HANDSHAKE, _NONE, 0, 1, "0.10.0: 0, 1.0: 0-1"),
    Route(ApiKey.API_VERSIONS, _NONE, 0, 5, "0.10.0: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 3.9: 0-4, 4.4: 0-5"),
    Route(
        ApiKey.CREATE_TOPICS, _CONTROLLER, 0, 7,
        "0.10.1: 0, 0.10.2: 0-1, 0.11: 0-2, 2.0: 0-3, 2.4: 0-5, 2.7: 0-6, 2.8: 0-7, 4.0: 2-7",
    ),
    Route(
        ApiKey.DELETE_TOPICS, _CONTROLLER, 0, 6,
        "0.10.1: 0, 0.11: 0-1, 2.0: 0-2, 2.1: 0-3, 2.4: 0-4, 2.7: 0-5, 2.8: 0-6, 4.0: 1-6",
    ),
    Route(ApiKey.DELETE_RECORDS, _LEADER, 0, 2, "0.11: 0, 2.0: 0-1, 2.6: 0-2"),
    Route(  # Kafka's older producers retry after no other error.
        ApiKey.INIT_PRODUCER_ID, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0, 5,
        "0.11: 0, 2.0: 0-1, 2.4: 0-2, 2.5: 0-3, 2.7: 0-4, 3.8: 0-5",
        unstable="4.1: 6",
    ),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, _LEADER, 0, 4, "0.11: 0, 2.0: 0-1, 2.1: 0-2, 2.3: 0-3, 2.8: 0-4, 4.0: 2-4"),
    Route(
        ApiKey.ADD_PARTITIONS_TO_TXN, _COORDINATOR, 0, 5,
        "0.11: 0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.6: 0-4, 3.8: 0-5",
    ),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, _COORDINATOR, 0, 4, "0.11: 0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.8: 0-4"),
    Route(ApiKey.END_TXN, _COORDINATOR, 0, 5, "0.11: 0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.8: 0-4, 4.0: 0-5"),
    Route(ApiKey.WRITE_TXN_MARKERS, _LEADER, 0, 2, "0.11: 0, 2.8: 0-1, 4.0: 1, 4.2: 1-2"),
    Route(
        ApiKey.TXN_OFFSET_COMMIT, _COORDINATOR, 0, 6,
        "0.11: 0, 2.0: 0-1, 2.1: 0-2, 2.5: 0-3, 3.8: 0-4, 4.0: 0-5, 4.4: 0-6",
    ),
    Route(ApiKey.DESCRIBE_ACLS, _CONTROLLER, 0, 3, "0.11: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3"),
    Route(ApiKey.CREATE_ACLS, _CONTROLLER, 0, 3, "0.11: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3"),
    Route(ApiKey.DELETE_ACLS, _CONTROLLER, 0, 3, "0.11: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3"),
    Route(ApiKey.DESCRIBE_CONFIGS, _CONTROLLER, 0, 4, "0.11: 0, 1.1: 0-1, 2.0: 0-2, 2.6: 0-3, 2.8: 0-4, 4.0: 1-4"),
    Route(ApiKey.ALTER_CONFIGS, _CONTROLLER, 0, 2, "0.11: 0, 2.0: 0-1, 2.8: 0-2"),
    Route(ApiKey.ALTER_REPLICA_LOG_DIRS, _CONTROLLER, 0, 2, "1.0: 0, 2.0: 0-1, 2.8: 0-2, 4.0: 1-2"),
    Route(
        ApiKey.DESCRIBE_LOG_DIRS, _CONTROLLER, 0, 5,
        "1.0: 0, 2.0: 0-1, 2.6: 0-2, 3.2: 0-3, 3.3: 0-4, 4.0: 1-4, 4.3: 1-5",
    ),
    Route(ApiKey.SASL_AUTHENTICATE, _NONE, 0, 2, "1.0: 0, 2.2: 0-1, 2.5: 0-2"),
    Route(ApiKey.CREATE_PARTITIONS, _CONTROLLER, 0, 3, "1.0: 0, 2.0: 0-1, 2.5: 0-2, 2.7: 0-3"),
    Route(ApiKey.CREATE_DELEGATION_TOKEN, _CONTROLLER, 0, 3, "1.1: 0, 2.0: 0-1, 2.4: 0-2, 3.3: -, 3.6: 0-3, 4.0: 1-3"),
    Route(ApiKey.RENEW_DELEGATION_TOKEN, _CONTROLLER, 0, 2, "1.1: 0, 2.0: 0-1, 2.5: 0-2, 3.3: -, 3.6: 0-2, 4.0: 1-2"),
    Route(ApiKey.EXPIRE_DELEGATION_TOKEN, _CONTROLLER, 0, 2, "1.1: 0, 2.0: 0-1, 2.5: 0-2, 3.3: -, 3.6: 0-2, 4.0: 1-2"),
    Route(
        ApiKey.DESCRIBE_DELEGATION_TOKEN, _CONTROLLER, 0, 3,
        "1.1: 0, 2.0: 0-1, 2.5: 0-2, 3.3: -, 3.6: 0-3, 4.0: 1-3",
    ),
    Route(ApiKey.DELETE_GROUPS, _COORDINATOR, 0, 3, "1.1: 0, 2.0: 0-1, 2.4: 0-2, 4.4: 0-3"),
    Route(ApiKey.ELECT_LEADERS, _CONTROLLER, 0, 2, "2.2: 0, 2.4: 0-2"),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, _CONTROLLER, 0, 1, "2.3: 0, 2.4: 0-1"),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _CONTROLLER, 0, 1, "2.4: 0, 4.1: 0-1"),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, _CONTROLLER, 0, 0, "2.4: 0"),
    Route(ApiKey.OFFSET_DELETE, _COORDINATOR, 0, 0, "2.4: 0"),
    Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, _CONTROLLER, 0, 1, "2.6: 0, 2.8: 0-1"),
    Route(ApiKey.ALTER_CLIENT_QUOTAS, _CONTROLLER, 0, 1, "2.6: 0, 2.8: 0-1"),
    Route(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, _CONTROLLER, 0, 0, "2.7: 0, 3.3: -, 3.5: 0"),
    Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _CONTROLLER, 0, 0, "2.7: 0, 3.3: -, 3.5: 0"),
    Route(ApiKey.DESCRIBE_QUORUM, _CONTROLLER, 0, 2, "3.3: 0-1, 3.9: 0-2"),
    Route(ApiKey.ALTER_PARTITION, _CONTROLLER, 0, 3, "2.7: 0, 3.2: 0-1, 3.3: -"),
    Route(ApiKey.UPDATE_FEATURES, _CONTROLLER, 0, 2, "2.7: 0, 3.3: 0-1, 4.0: 0-2"),
    Route(ApiKey.ENVELOPE, _CONTROLLER, 0, 0),
    Route(ApiKey.DESCRIBE_CLUSTER, _NONE, 0, 2, "2.8: 0, 3.7: 0-1, 4.0: 0-2"),
    Route(ApiKey.DESCRIBE_PRODUCERS, _LEADER, 0, 0, "2.8: 0"),
    Route(ApiKey.UNREGISTER_BROKER, _CONTROLLER, 0, 0, "3.3: 0"),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, _COORDINATOR, 0, 0, "3.0: 0"),
    Route(ApiKey.LIST_TRANSACTIONS, _COORDINATOR, 0, 2, "3.0: 0, 3.8: 0-1, 4.1: 0-2"),
    Route(ApiKey.ALLOCATE_PRODUCER_IDS, _CONTROLLER, 0, 0, "3.0: 0, 3.3: -"),
    Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, _COORDINATOR, 0, 1, "3.7: 0, 4.0: 0-1"),
    Route(ApiKey.CONSUMER_GROUP_DESCRIBE, _COORDINATOR, 0, 1, "3.8: 0, 4.0: 0-1"),
    Route(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, _NONE, 0, 0, "3.7: 0"),
    Route(ApiKey.PUSH_TELEMETRY, _NONE, 0, 0, "3.7: 0"),
    Route(ApiKey.LIST_CONFIG_RESOURCES, _CONTROLLER, 0, 1, "3.7: 0, 4.1: 0-1"),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, _CONTROLLER, 0, 0, "3.8: 0"),
    Route(ApiKey.SHARE_GROUP_HEARTBEAT, _COORDINATOR, 1, 1, "4.1: 1"),
    Route(ApiKey.SHARE_GROUP_DESCRIBE, _COORDINATOR, 1, 1, "4.1: 1"),
    Route(ApiKey.SHARE_FETCH, _LEADER, 1, 2, "4.1: 1, 4.2: 1-2"),
    Route(ApiKey.SHARE_ACKNOWLEDGE, _LEADER, 1, 2, "4.1: 1, 4.2: 1-2"),
    Route(ApiKey.ADD_RAFT_VOTER, _CONTROLLER, 0, 1, "3.9: 0, 4.2: 0-1"),
    Route(ApiKey.REMOVE_RAFT_VOTER, _CONTROLLER, 0, 0, "3.9: 0"),
    Route(ApiKey.INITIALIZE_SHARE_GROUP_STATE, _COORDINATOR, 0, 0, "4.1: 0"),
    Route(ApiKey.READ_SHARE_GROUP_STATE, _COORDINATOR, 0, 0, "4.1: 0"),
    Route(ApiKey.WRITE_SHARE_GROUP_STATE, _COORDINATOR, 0, 1, "4.1: 0, 4.2: 0-1"),
    Route(ApiKey.DELETE_SHARE_GROUP_STATE, _COORDINATOR, 0, 0, "4.1: 0"),
    Route(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, _COORDINATOR, 0, 1, "4.1: 0, 4.2: 0-1"),
    Route(ApiKey.STREAMS_GROUP_HEARTBEAT, _COORDINATOR, 0, 1, "4.2: 0, 4.4: 0-1", unstable="4.1: 0"),
    Route(ApiKey.STREAMS_GROUP_DESCRIBE, _COORDINATOR, 0, 1, "4.2: 0, 4.4: 0-1", unstable="4.1: 0"),
    Route(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, _COORDINATOR, 0, 1, "4.1: 0, 4.2: 0-1"),
    Route(ApiKey.ALTER_SHARE_GROUP_OFFSETS, _COORDINATOR, 0, 0, "4.1: 0"),
    Route(ApiKey.DELETE_SHARE_GROUP_OFFSETS, _COORDINATOR, 0, 0, "4.1: 0"),
    Route(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, _COORDINATOR, 0, 0, "4.4: 0"),
    Route(ApiKey.UNREGISTER_CONTROLLER, _CONTROLLER, 0, 0, "4.4: 0"),
)
# fmt: on
