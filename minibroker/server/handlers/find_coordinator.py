"""FindCoordinator: which broker keeps a group or a transactional id: the leader of its partition.

Versions 0-6: transactional ids from version 1 on, several keys at once from version 4 on (KIP-699). The coordinator's
topic is made if need be. Kafka has it made in the background and answers COORDINATOR_NOT_AVAILABLE meanwhile; here
the first answer is the coordinator. COORDINATOR_NOT_AVAILABLE while the partition has no leader. From version 6 on
keys of share-partitions are known, too (KIP-932): "group:topic id:partition", else INVALID_REQUEST.
"""

import re
from typing import Final

from minibroker.cluster.node import NO_NODE, Node
from minibroker.cluster.routing.slices import Steps
from minibroker.cluster.topic_admin import TopicError
from minibroker.coordinators.coordinator_log import CoordinatorLog
from minibroker.coordinators.groups.classic.client_quirks import joins_after_lookup
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal, coordinator_keys_at
from minibroker.server.requests.requirements import asked_by_handler, on_each
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minibroker_protocol.schema import first_version

_FIRST_WITH_MANY: Final = first_version(FindCoordinatorRequest, "coordinator_keys")
_FIRST_WITH_SHARE: Final = 6
_SUCCESS: Final = "NONE"
"""The error message of a success before version 4."""
_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_SHARE_PARTITION: Final = re.compile(r".+:[\w-]{22}:\d{1,10}", re.ASCII | re.DOTALL)
"""The key of a share-partition: its group, the id of its topic, and its number (`SharePartitionKey.validate`)."""
_NO_PORT: Final = -1

NAMES: Final = coordinator_keys_at("coordinator_keys", "key")
NEEDS: Final = on_each(Operation.DESCRIBE, ResourceType.ANY) & asked_by_handler(
    "CLUSTER_ACTION on the cluster for share-partitions"
)
REFUSAL: Final = Refusal({"node_id": -1, "port": -1}, explained=True)


def handle(request: FindCoordinatorRequest, call: Call) -> Steps[FindCoordinatorResponse]:
    """Return each key's coordinator (`KafkaApis.handleFindCoordinatorRequest`)."""
    keys = request.coordinator_keys if call.api_version >= _FIRST_WITH_MANY else [request.key]
    joiner = call.session.early_joiner
    if joiner is not None and request.key_type == _GROUP:
        call.services.groups.rebalances.note_lookup(joiner, keys)
    is_expected = call.services.works_around_clients and joins_after_lookup(call.session.software, call.client_id)
    if is_expected and request.key_type == _GROUP:
        call.services.groups.rebalances.expect_join(request.key)
    if call.api_version >= _FIRST_WITH_MANY:
        coordinators: list[Coordinator] = []
        for key in keys:
            coordinators.append(_find(key, request.key_type, call))
            yield
        return FindCoordinatorResponse(coordinators=coordinators)
    found = _find(request.key, request.key_type, call)
    code = ErrorCode(found.error_code)
    return FindCoordinatorResponse(
        error_code=code,
        error_message=found.error_message or code.meaning if code else _SUCCESS,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(key: str, key_type: int, call: Call) -> Coordinator:
    node, code, reason = _coordinator(key, key_type, call)
    host, port = ("", _NO_PORT) if node is None else call.address_of(node)
    return Coordinator(
        key=key,
        node_id=NO_NODE if node is None else node.id,
        host=host,
        port=port,
        error_code=code,
        error_message=reason,
    )


def _log(key_type: int, call: Call) -> CoordinatorLog | None:
    """The log of the coordinator for keys of a kind; None for a kind that the version does not have."""
    services = call.services
    if key_type == _GROUP:
        return services.groups.store.log
    if key_type == _TRANSACTION:
        return services.transactions.store.log
    is_share = key_type == _SHARE and call.api_version >= _FIRST_WITH_SHARE
    return services.share_states.store.log if is_share else None


def _coordinator(key: str, key_type: int, call: Call) -> tuple[Node | None, ErrorCode, str]:
    """The coordinator, whose topic is made if need be; what is wrong if there can be none."""
    log = _log(key_type, call)
    if log is None or (key_type == _SHARE and not _SHARE_PARTITION.fullmatch(key)):
        return None, ErrorCode.INVALID_REQUEST, "" if key_type == _SHARE else ErrorCode.INVALID_REQUEST.meaning
    if key_type == _SHARE and not call.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return None, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""
    try:
        log.ensure()
    except TopicError as error:
        return None, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{log.name}: {error}"
    node = log.coordinator(key)
    if node is None:
        return None, ErrorCode.COORDINATOR_NOT_AVAILABLE, ""
    return node, ErrorCode.NONE, ""
