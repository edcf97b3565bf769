"""What a client must be allowed to do so that a request is served: a row for each API (`KafkaApis`, `ControllerApis`).

Rules about a whole request, and about each topic, group or transactional id that it names, are held here; the guard
acts on them before a handler sees anything. Where rights depend on more than names, or only hide parts of an answer,
the handler asks `Call.allows`, and the row says in words what for.
`python -m minibroker.security.authorization.requirements` prints the table of docs/security.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import CRC_COVERS_FROM, MAGIC_AT, MAGIC_V2, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from minibroker.call import Call

_ATTRIBUTES_AT: Final = CRC_COVERS_FROM + 1
"""The lower byte of a batch's attributes."""
_FIRST_ADDED_BY_BROKERS: Final = 4
_FIRST_SYNC_WITH_PROTOCOL: Final = 5

AUTHORIZATION_FAILED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""What a client is told that may not do something to a resource."""

Check = Callable[[Any, "Call"], ErrorCode]
"""Looks at a whole request: NONE, or what it is refused with."""


class Whole(NamedTuple):
    """A rule about a whole request, and what the documentation says of it."""

    check: Check
    text: str


class Each(NamedTuple):
    """The right that each topic, group or transactional id of a request needs; those without it are refused alone.

    Attributes:
        exempt: a right on the cluster that stands for all of them.
    """

    operation: Operation
    resource_type: ResourceType
    exempt: Operation | None = None

    @property
    def text(self) -> str:
        """What the documentation says of it."""
        each = f"{self.operation.name} on each {_WORDS[self.resource_type]}"
        return each if self.exempt is None else f"{self.exempt.name} on the cluster, or {each}"


class Requirement(NamedTuple):
    """What one API needs.

    Attributes:
        whole: rules about the whole request, in the order in which they are asked.
        each: the right that what it names needs; FindCoordinator's depends on what it asks about.
        handler: what its handler asks beside these, in words; empty if nothing.
    """

    whole: tuple[Whole, ...] = ()
    each: Each | None = None
    handler: str = ""

    def each_of(self, request: Any) -> Each | None:
        """The right that what this request names needs."""
        if self.each is None or self.each.resource_type is not ResourceType.ANY:
            return self.each
        kind = _KEYS.get(request.key_type)
        return None if kind is None else Each(self.each.operation, kind)

    @property
    def text(self) -> str:
        """What the documentation says of the API."""
        parts = [*(rule.text for rule in self.whole), *([self.each.text] if self.each else []), self.handler]
        return "; ".join(filter(None, parts)) or "nothing"


_WORDS: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.ANY: "group or transactional id",
}
_KEYS: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
"""What the keys of FindCoordinator are, by their type."""


def _named(operation: Operation, resource_type: ResourceType, field: str) -> Whole:
    def check(request: Any, call: Call) -> ErrorCode:
        allowed = call.allows(operation, resource_type, getattr(request, field) or "")
        return ErrorCode.NONE if allowed else AUTHORIZATION_FAILED[resource_type]

    return Whole(check, f"{operation.name} on the {_WORDS[resource_type]}")


def _group(operation: Operation) -> Whole:
    return _named(operation, ResourceType.GROUP, "group_id")


def _transactional_id(operation: Operation) -> Whole:
    return _named(operation, ResourceType.TRANSACTIONAL_ID, "transactional_id")


def _cluster(*any_of: Operation) -> Whole:
    def check(_request: Any, call: Call) -> ErrorCode:
        allowed = any(call.allows(each, ResourceType.CLUSTER, CLUSTER_NAME) for each in any_of)
        return ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    return Whole(check, f"{' or '.join(each.name for each in any_of)} on the cluster")


def _produce(request: Any, call: Call) -> ErrorCode:
    """Transactional records need the right to their transaction (`RequestUtils.hasTransactionalRecords`)."""
    if not any(_is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data):
        return ErrorCode.NONE
    transactional_id = request.transactional_id
    if transactional_id is not None and call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _is_transactional(records: Any) -> bool:
    """Whether the first batch is; there are never two in a request that is served."""
    return bool(
        records
        and len(records) > _ATTRIBUTES_AT
        and records[MAGIC_AT] == MAGIC_V2
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG
    )


def _sync_group(request: Any, call: Call) -> ErrorCode:
    """A request without its protocol is refused for that, whoever sends it."""
    if call.api_version >= _FIRST_SYNC_WITH_PROTOCOL and None in {request.protocol_type, request.protocol_name}:
        return ErrorCode.NONE
    return _group(Operation.READ).check(request, call)


def _init_producer_id(request: Any, call: Call) -> ErrorCode:
    """Who may write to some topic may write to it idempotently (KIP-679)."""
    if request.transactional_id is not None:
        return _transactional_id(Operation.WRITE).check(request, call)
    allowed = call.allows(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME) or call.allows_somewhere(
        Operation.WRITE, ResourceType.TOPIC
    )
    return ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _add_partitions_to_txn(request: Any, call: Call) -> ErrorCode:
    """Up to version 3 clients send it, from 4 on brokers."""
    if call.api_version >= _FIRST_ADDED_BY_BROKERS:
        return _cluster(Operation.CLUSTER_ACTION).check(request, call)
    return _named(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "v3_and_below_transactional_id").check(request, call)


def _heartbeat(request: Any, call: Call) -> ErrorCode:
    """A member may only subscribe to what it may describe."""
    code = _group(Operation.READ).check(request, call)
    if code:
        return code
    named = request.subscribed_topic_names or ()
    if all(call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in named):
        return ErrorCode.NONE
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _each(operation: Operation, resource_type: ResourceType, exempt: Operation | None = None) -> Requirement:
    return Requirement(each=Each(operation, resource_type, exempt))


def _on_cluster(*any_of: Operation) -> Requirement:
    return Requirement((_cluster(*any_of),))


_OF_GROUP: Final = Requirement((_group(Operation.READ),))
_FREE: Final = Requirement()
_READ_EACH_TOPIC: Final = Each(Operation.READ, ResourceType.TOPIC)

REQUIREMENTS: Final[Mapping[ApiKey, Requirement]] = {
    ApiKey.PRODUCE: Requirement(
        (Whole(_produce, "WRITE on the transactional id, for transactional records"),),
        Each(Operation.WRITE, ResourceType.TOPIC),
    ),
    ApiKey.FETCH: Requirement(handler="READ on each topic; CLUSTER_ACTION on the cluster, for replicas"),
    ApiKey.LIST_OFFSETS: _each(Operation.DESCRIBE, ResourceType.TOPIC),
    ApiKey.METADATA: Requirement(
        handler="DESCRIBE on each topic, or it is hidden; CREATE on the cluster or the topic, to have it created"
    ),
    ApiKey.LEADER_AND_ISR: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.STOP_REPLICA: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.UPDATE_METADATA: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.CONTROLLED_SHUTDOWN: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.OFFSET_COMMIT: Requirement((_group(Operation.READ),), _READ_EACH_TOPIC),
    ApiKey.OFFSET_FETCH: Requirement(handler="DESCRIBE on each group; DESCRIBE on each topic"),
    ApiKey.FIND_COORDINATOR: _each(Operation.DESCRIBE, ResourceType.ANY),
    ApiKey.JOIN_GROUP: _OF_GROUP,
    ApiKey.HEARTBEAT: _OF_GROUP,
    ApiKey.LEAVE_GROUP: _OF_GROUP,
    ApiKey.SYNC_GROUP: Requirement((Whole(_sync_group, _OF_GROUP.text),)),
    ApiKey.DESCRIBE_GROUPS: _each(Operation.DESCRIBE, ResourceType.GROUP),
    ApiKey.LIST_GROUPS: Requirement(handler="DESCRIBE on the cluster, or on each group, or it is hidden"),
    ApiKey.SASL_HANDSHAKE: _FREE,
    ApiKey.API_VERSIONS: _FREE,
    ApiKey.CREATE_TOPICS: Requirement(
        handler="CREATE on the cluster or on each topic; DESCRIBE_CONFIGS on each topic, to be told its configuration"
    ),
    ApiKey.DELETE_TOPICS: Requirement(
        handler="DELETE on the cluster or on each topic; DESCRIBE on each topic, to be told its name"
    ),
    ApiKey.DELETE_RECORDS: _each(Operation.DELETE, ResourceType.TOPIC),
    ApiKey.INIT_PRODUCER_ID: Requirement(
        (
            Whole(
                _init_producer_id,
                "WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic",
            ),
        )
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _each(Operation.DESCRIBE, ResourceType.TOPIC, Operation.CLUSTER_ACTION),
    ApiKey.ADD_PARTITIONS_TO_TXN: Requirement(
        (
            Whole(
                _add_partitions_to_txn,
                "WRITE on the transactional id; CLUSTER_ACTION on the cluster from version 4 on",
            ),
        ),
        handler="WRITE on each topic up to version 3",
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Requirement((_transactional_id(Operation.WRITE), _group(Operation.READ))),
    ApiKey.END_TXN: Requirement((_transactional_id(Operation.WRITE),)),
    ApiKey.WRITE_TXN_MARKERS: _on_cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
    ApiKey.TXN_OFFSET_COMMIT: Requirement(
        (_transactional_id(Operation.WRITE), _group(Operation.READ)), _READ_EACH_TOPIC
    ),
    ApiKey.DESCRIBE_ACLS: _on_cluster(Operation.DESCRIBE),
    ApiKey.CREATE_ACLS: _on_cluster(Operation.ALTER),
    ApiKey.DELETE_ACLS: _on_cluster(Operation.ALTER),
    ApiKey.DESCRIBE_CONFIGS: Requirement(
        handler="DESCRIBE_CONFIGS on each topic or group; on the cluster, for brokers and client metrics"
    ),
    ApiKey.ALTER_CONFIGS: Requirement(
        handler="ALTER_CONFIGS on each topic or group; on the cluster, for brokers and client metrics"
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _on_cluster(Operation.ALTER),
    ApiKey.DESCRIBE_LOG_DIRS: _on_cluster(Operation.DESCRIBE),
    ApiKey.SASL_AUTHENTICATE: _FREE,
    ApiKey.CREATE_PARTITIONS: _each(Operation.ALTER, ResourceType.TOPIC),
    ApiKey.CREATE_DELEGATION_TOKEN: Requirement(handler="CREATE_TOKENS on the user, for a token of somebody else"),
    ApiKey.RENEW_DELEGATION_TOKEN: Requirement(handler="to be the token's owner or one of its renewers"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Requirement(handler="to be the token's owner or one of its renewers"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Requirement(
        handler="DESCRIBE on the token or DESCRIBE_TOKENS on its owner, for tokens of somebody else, or it is hidden"
    ),
    ApiKey.DELETE_GROUPS: _each(Operation.DELETE, ResourceType.GROUP),
    ApiKey.ELECT_LEADERS: _on_cluster(Operation.ALTER),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Requirement(
        handler="ALTER_CONFIGS on each topic or group; on the cluster, for brokers and client metrics"
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _on_cluster(Operation.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _on_cluster(Operation.DESCRIBE),
    ApiKey.OFFSET_DELETE: Requirement((_group(Operation.DELETE),), _READ_EACH_TOPIC),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _on_cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _on_cluster(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _on_cluster(Operation.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _on_cluster(Operation.ALTER),
    ApiKey.ALTER_PARTITION: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.DESCRIBE_QUORUM: _on_cluster(Operation.DESCRIBE),
    ApiKey.ALTER_PARTITION: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.UPDATE_FEATURES: _on_cluster(Operation.ALTER),
    ApiKey.ENVELOPE: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.ENVELOPE: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.DESCRIBE_CLUSTER: Requirement(handler="DESCRIBE on the cluster, to be told what may be done to it"),
    ApiKey.DESCRIBE_PRODUCERS: _each(Operation.READ, ResourceType.TOPIC),
    ApiKey.UNREGISTER_BROKER: _on_cluster(Operation.ALTER),
    ApiKey.DESCRIBE_TRANSACTIONS: Requirement(
        each=Each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        handler="DESCRIBE on each of its topics, or it is hidden",
    ),
    ApiKey.LIST_TRANSACTIONS: Requirement(handler="DESCRIBE on each transactional id, or it is hidden"),
    ApiKey.ALLOCATE_PRODUCER_IDS: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.ALLOCATE_PRODUCER_IDS: _on_cluster(Operation.CLUSTER_ACTION),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Requirement(
        (Whole(_heartbeat, "READ on the group; DESCRIBE on all topics that the member subscribes to"),)
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Requirement(
        each=Each(Operation.DESCRIBE, ResourceType.GROUP), handler="DESCRIBE on all topics that its members have"
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _FREE,
    ApiKey.PUSH_TELEMETRY: _FREE,
    ApiKey.LIST_CONFIG_RESOURCES: _on_cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Requirement(handler="DESCRIBE on each topic, or it is hidden"),
    ApiKey.ADD_RAFT_VOTER: _on_cluster(Operation.ALTER),
    ApiKey.REMOVE_RAFT_VOTER: _on_cluster(Operation.ALTER),
    ApiKey.UNREGISTER_CONTROLLER: _on_cluster(Operation.ALTER),
    ApiKey.UNREGISTER_CONTROLLER: _on_cluster(Operation.ALTER),
}


def table() -> str:
    """The rows as Markdown."""
    rows = "".join(f"| {_title(key)} | {requirement.text} |\n" for key, requirement in sorted(REQUIREMENTS.items()))
    return "| API | needs |\n| --- | --- |\n" + rows


def _title(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))


if __name__ == "__main__":
    sys.stdout.write(table())
