"""What each release of Apache Kafka tells its clients: which APIs in which versions.

`--emulate 2.0` has a broker serve just that, so that a client meets the broker that it would meet there. Brokers before
0.10 know no ApiVersions and close a connection on which it comes.

Up to 3.2 a release is one with ZooKeeper, from 3.3 on one with KRaft, as most are that run. The table is compared with
`ApiKeys` of each release; for what goes between the brokers of 0.8.2 with its `RequestKeys`. Share groups and streams
groups, of which 4.1 and later tell, are not served here, and so not told. Client metrics (71 and 72) are told as long
as somebody wants any.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from minibroker.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    Feature,
)
from minibroker_protocol.api_keys import ApiKey

RELEASES: Final = (
    "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2", "0.11", "1.0", "1.1",
    "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
    "4.0", "4.1", "4.2", "4.3", "4.4",
)  # fmt: skip
"""In their order."""

# Since when, which versions: "-" once an API is gone.
# fmt: off
_HISTORY: Final[Mapping[ApiKey, str]] = {
    ApiKey.PRODUCE:
        "0.8.2: 0, 0.9: 0-1, 0.10.0: 0-2, 0.11: 0-3, 1.0: 0-5, 2.0: 0-6, 2.1: 0-7, 2.4: 0-8, 2.8: 0-9, 3.7: 0-10, "
        "3.8: 0-11, 4.0: 3-12, 4.1: 3-13",
    ApiKey.FETCH:
        "0.8.2: 0, 0.9: 0-1, 0.10.0: 0-2, 0.10.1: 0-3, 0.11: 0-5, 1.0: 0-6, 1.1: 0-7, 2.0: 0-8, 2.1: 0-10, "
        "2.3: 0-11, 2.7: 0-12, 3.1: 0-13, 3.5: 0-15, 3.7: 0-16, 3.9: 0-17, 4.0: 4-17, 4.1: 4-18",
    ApiKey.LIST_OFFSETS:
        "0.8.2: 0, 0.10.1: 0-1, 0.11: 0-2, 2.0: 0-3, 2.1: 0-4, 2.2: 0-5, 2.8: 0-6, 3.0: 0-7, 3.5: 0-8, 3.9: 0-9, "
        "4.0: 1-10, 4.2: 1-11",
    ApiKey.METADATA:
        "0.8.2: 0, 0.10.0: 0-1, 0.10.1: 0-2, 0.11: 0-4, 1.0: 0-5, 2.0: 0-6, 2.1: 0-7, 2.3: 0-8, 2.4: 0-9, 2.8: 0-11, "
        "3.1: 0-12, 4.0: 0-13",
    ApiKey.LEADER_AND_ISR: "0.8.2: 0, 1.0: 0-1, 2.2: 0-2, 2.4: 0-4, 2.8: 0-5, 3.2: 0-6, 3.3: -",
    ApiKey.STOP_REPLICA: "0.8.2: 0, 2.2: 0-1, 2.4: 0-2, 2.6: 0-3, 3.3: -",
    ApiKey.UPDATE_METADATA:
        "0.8.2: 0, 0.9: 0-1, 0.10.0: 0-2, 0.10.2: 0-3, 1.0: 0-4, 2.2: 0-5, 2.4: 0-6, 2.8: 0-7, 3.3: -",
    ApiKey.CONTROLLED_SHUTDOWN: "0.8.2: 0, 0.9: 1, 1.0: 0-1, 2.2: 0-2, 2.4: 0-3, 3.3: -",
    ApiKey.OFFSET_COMMIT:
        "0.8.2: 0-1, 0.9: 0-2, 0.11: 0-3, 2.0: 0-4, 2.1: 0-6, 2.3: 0-7, 2.4: 0-8, 3.7: 0-9, 4.0: 2-9, 4.2: 2-10",
    ApiKey.OFFSET_FETCH:
        "0.8.2: 0-1, 0.10.2: 0-2, 0.11: 0-3, 2.0: 0-4, 2.1: 0-5, 2.4: 0-6, 2.5: 0-7, 3.0: 0-8, 3.7: 0-9, 4.0: 1-9, "
        "4.2: 1-10",
    ApiKey.FIND_COORDINATOR: "0.8.2: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 3.0: 0-4, 3.8: 0-5, 3.9: 0-6",
    ApiKey.JOIN_GROUP:
        "0.9: 0, 0.10.1: 0-1, 0.11: 0-2, 2.0: 0-3, 2.2: 0-4, 2.3: 0-5, 2.4: 0-6, 2.5: 0-7, 3.2: 0-9",
    ApiKey.HEARTBEAT: "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-4",
    ApiKey.LEAVE_GROUP: "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-4, 3.2: 0-5",
    ApiKey.SYNC_GROUP: "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-4, 2.5: 0-5",
    ApiKey.DESCRIBE_GROUPS: "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-5, 4.0: 0-6",
    ApiKey.LIST_GROUPS: "0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 2.6: 0-4, 3.8: 0-5",
    ApiKey.SASL_HANDSHAKE: "0.10.0: 0, 1.0: 0-1",
    ApiKey.API_VERSIONS: "0.10.0: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 3.9: 0-4, 4.4: 0-5",
    ApiKey.CREATE_TOPICS:
        "0.10.1: 0, 0.10.2: 0-1, 0.11: 0-2, 2.0: 0-3, 2.4: 0-5, 2.7: 0-6, 2.8: 0-7, 4.0: 2-7",
    ApiKey.DELETE_TOPICS: "0.10.1: 0, 0.11: 0-1, 2.0: 0-2, 2.1: 0-3, 2.4: 0-4, 2.7: 0-5, 2.8: 0-6, 4.0: 1-6",
    ApiKey.DELETE_RECORDS: "0.11: 0, 2.0: 0-1, 2.6: 0-2",
    ApiKey.INIT_PRODUCER_ID: "0.11: 0, 2.0: 0-1, 2.4: 0-2, 2.5: 0-3, 2.7: 0-4, 3.8: 0-5",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "0.11: 0, 2.0: 0-1, 2.1: 0-2, 2.3: 0-3, 2.8: 0-4, 4.0: 2-4",
    ApiKey.ADD_PARTITIONS_TO_TXN: "0.11: 0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.6: 0-4, 3.8: 0-5",
    ApiKey.ADD_OFFSETS_TO_TXN: "0.11: 0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.8: 0-4",
    ApiKey.END_TXN: "0.11: 0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.8: 0-4, 4.0: 0-5",
    ApiKey.WRITE_TXN_MARKERS: "0.11: 0, 2.8: 0-1, 4.0: 1, 4.2: 1-2",
    ApiKey.TXN_OFFSET_COMMIT: "0.11: 0, 2.0: 0-1, 2.1: 0-2, 2.5: 0-3, 3.8: 0-4, 4.0: 0-5, 4.4: 0-6",
    ApiKey.DESCRIBE_ACLS: "0.11: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3",
    ApiKey.CREATE_ACLS: "0.11: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3",
    ApiKey.DELETE_ACLS: "0.11: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3",
    ApiKey.DESCRIBE_CONFIGS: "0.11: 0, 1.1: 0-1, 2.0: 0-2, 2.6: 0-3, 2.8: 0-4, 4.0: 1-4",
    ApiKey.ALTER_CONFIGS: "0.11: 0, 2.0: 0-1, 2.8: 0-2",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "1.0: 0, 2.0: 0-1, 2.8: 0-2, 4.0: 1-2",
    ApiKey.DESCRIBE_LOG_DIRS: "1.0: 0, 2.0: 0-1, 2.6: 0-2, 3.2: 0-3, 3.3: 0-4, 4.0: 1-4, 4.3: 1-5",
    ApiKey.SASL_AUTHENTICATE: "1.0: 0, 2.2: 0-1, 2.5: 0-2",
    ApiKey.CREATE_PARTITIONS: "1.0: 0, 2.0: 0-1, 2.5: 0-2, 2.7: 0-3",
    ApiKey.CREATE_DELEGATION_TOKEN: "1.1: 0, 2.0: 0-1, 2.4: 0-2, 3.3: -, 3.6: 0-3, 4.0: 1-3",
    ApiKey.RENEW_DELEGATION_TOKEN: "1.1: 0, 2.0: 0-1, 2.5: 0-2, 3.3: -, 3.6: 0-2, 4.0: 1-2",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "1.1: 0, 2.0: 0-1, 2.5: 0-2, 3.3: -, 3.6: 0-2, 4.0: 1-2",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "1.1: 0, 2.0: 0-1, 2.5: 0-2, 3.3: -, 3.6: 0-3, 4.0: 1-3",
    ApiKey.DELETE_GROUPS: "1.1: 0, 2.0: 0-1, 2.4: 0-2, 4.4: 0-3",
    ApiKey.ELECT_LEADERS: "2.2: 0, 2.4: 0-2",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.3: 0, 2.4: 0-1",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.4: 0, 4.1: 0-1",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.4: 0",
    ApiKey.OFFSET_DELETE: "2.4: 0",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "2.6: 0, 2.8: 0-1",
    ApiKey.ALTER_CLIENT_QUOTAS: "2.6: 0, 2.8: 0-1",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.7: 0, 3.3: -, 3.5: 0",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "2.7: 0, 3.3: -, 3.5: 0",
    ApiKey.DESCRIBE_QUORUM: "3.3: 0-1, 3.9: 0-2",
    ApiKey.ALTER_PARTITION: "2.7: 0, 3.2: 0-1, 3.3: -",
    ApiKey.UPDATE_FEATURES: "2.7: 0, 3.3: 0-1, 4.0: 0-2",
    ApiKey.DESCRIBE_CLUSTER: "2.8: 0, 3.7: 0-1, 4.0: 0-2",
    ApiKey.DESCRIBE_PRODUCERS: "2.8: 0",
    ApiKey.UNREGISTER_BROKER: "3.3: 0",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0: 0",
    ApiKey.LIST_TRANSACTIONS: "3.0: 0, 3.8: 0-1, 4.1: 0-2",
    ApiKey.ALLOCATE_PRODUCER_IDS: "3.0: 0, 3.3: -",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "3.7: 0, 4.0: 0-1",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "3.8: 0, 4.0: 0-1",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "3.7: 0",
    ApiKey.PUSH_TELEMETRY: "3.7: 0",
    ApiKey.LIST_CONFIG_RESOURCES: "3.7: 0, 4.1: 0-1",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "3.8: 0",
    ApiKey.ADD_RAFT_VOTER: "3.9: 0, 4.2: 0-1",
    ApiKey.REMOVE_RAFT_VOTER: "3.9: 0",
    ApiKey.UNREGISTER_CONTROLLER: "4.4: 0",
}
_FEATURES: Final[Mapping[str, str]] = {
    METADATA_VERSION:
        "3.3: 1-7, 3.4: 1-8, 3.5: 1-11, 3.6: 1-14, 3.7: 1-19, 3.8: 1-20, 3.9: 1-21, 4.0: 7-25, 4.1: 7-27, 4.2: 7-29, "
        "4.3: 7-30, 4.4: 7-33",
    KRAFT_VERSION: "3.9: 0-1",
    TRANSACTION_VERSION: "4.0: 0-2",
    GROUP_VERSION: "4.0: 0-1",
    ELIGIBLE_LEADER_REPLICAS_VERSION: "4.0: 0-1",
}
# fmt: on
_FIRST_WITH_FRESH_REPLICAS: Final = "4.1"
_FIRST_WITHOUT_OLD_PRODUCE: Final = "4.0"
"""It tells its clients that it serves Produce from version 0 on, without which some would not start, but does not."""


class ReleaseError(ValueError):
    """No release of Kafka that can be emulated; the message says which can."""


class Release(NamedTuple):
    """A minor release of Kafka.

    Attributes:
        name: as in `RELEASES`.
        served: API key -> first and last version.
        features: what can be finalized; nothing where there is no KRaft.
    """

    name: str
    served: Mapping[int, tuple[int, int]]
    features: Mapping[str, Feature]

    @property
    def told(self) -> Mapping[int, tuple[int, int]]:
        """What ApiVersions tells, as `served`; they are the same but for Produce (KIP-896)."""
        if not self.is_at_least(_FIRST_WITHOUT_OLD_PRODUCE):
            return self.served
        return {**self.served, ApiKey.PRODUCE: (0, self.served[ApiKey.PRODUCE][1])}

    def is_at_least(self, name: str) -> bool:
        """Whether it is this one of `RELEASES`, or a later one."""
        return RELEASES.index(self.name) >= RELEASES.index(name)


def release(text: str) -> Release:
    """The release that a user means: "2.0", "2.0.1", "v3.9.x", "0.10" (the last of its line). ReleaseError."""
    name = _name(text.strip())
    if name is None:
        raise ReleaseError(f"emulate: {text!r} is no release of Kafka that is known; those are {', '.join(RELEASES)}")
    at = RELEASES.index(name)
    served = {int(key): versions for key, told in _HISTORY.items() if (versions := _range_at(told, at)) is not None}
    levels = {name: found for name, told in _FEATURES.items() if (found := _range_at(told, at)) is not None}
    return Release(name, served, {each: Feature(*found, _fresh(each, found[1], at)) for each, found in levels.items()})


def _fresh(feature: str, last: int, at: int) -> int:
    """The level that a new cluster of a release begins with."""
    begins_at_zero = feature == ELIGIBLE_LEADER_REPLICAS_VERSION and at < RELEASES.index(_FIRST_WITH_FRESH_REPLICAS)
    return 0 if feature == KRAFT_VERSION or begins_at_zero else last


def _name(text: str) -> str | None:
    numbers = text.removeprefix("v").removesuffix(".x").split(".")
    for count in (3, 2):
        if ".".join(numbers[:count]) in RELEASES:
            return ".".join(numbers[:count])
    same_line = [name for name in RELEASES if name.startswith(f"{'.'.join(numbers)}.")]
    return same_line[-1] if same_line and all(map(str.isdecimal, numbers)) else None


def _range_at(told: str, at: int) -> tuple[int, int] | None:
    """What a line of the history says of one release."""
    found = None
    for entry in told.split(", "):
        since, _, versions = entry.partition(": ")
        if RELEASES.index(since) > at:
            break
        first, _, last = versions.partition("-")
        found = (int(first), int(last or first)) if first else None
    return found
