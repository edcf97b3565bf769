"""ListGroups: every group that the broker keeps.

Versions 0-5: filters by state from version 4 on (KIP-518), by type from version 5 on (KIP-848). The types are "classic"
and "consumer". Names of states and types may be written in any case; a name that says nothing lets nothing through.
The order is that of Kafka's hash tables.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.coordinator_log import java_hash
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.java_order import bucket, in_timeline_order, table_size, topic_partition_hash
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_GROUPS_PER_STEP: Final = 5_000
NEEDS: Final = asked_by_handler("DESCRIBE on the cluster, or on each group, or it is hidden")


def handle(request: ListGroupsRequest, call: Call) -> Steps[ListGroupsResponse]:
    """List what is loaded; COORDINATOR_LOAD_IN_PROGRESS beside it when that is not all."""
    store = call.services.groups.store
    store.load_all()
    sees_all = call.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    states = {name.lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if store.is_loading else ErrorCode.NONE
    listed: list[ListedGroup] = []
    for number, group in enumerate(_in_order(store, is_before_4_0=call.services.is_before("4.0")), start=1):
        if number % _GROUPS_PER_STEP == 0:
            yield
        if (
            not store.log.coordinator_error(group.group_id, call.node)
            and (sees_all or call.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id))
            and (not states or group.state.value.lower() in states)
            and (not types or group.kind in types)
        ):
            listed.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=group.kind,
                )
            )
    return ListGroupsResponse(error_code=code, groups=listed)


def _in_order(store: GroupStore, *, is_before_4_0: bool) -> list[AnyGroup]:
    """Return the groups in the order of Kafka's hash tables: one for each partition, or one for all before 4.0."""
    groups, log = tuple(store.groups()), store.log
    table = table_size((len(groups) if is_before_4_0 else log.partition_count) + 1)
    tables: dict[int, dict[str, AnyGroup]] = {}
    for group in groups:
        name = group.group_id
        if is_before_4_0:
            key = bucket(java_hash(name), table)
        else:
            key = bucket(topic_partition_hash(log.name, log.partition_of(name)), table)
        tables.setdefault(key, {})[name] = group
    ordered: list[AnyGroup] = []
    for key in sorted(tables):
        ordered += tables[key].values() if is_before_4_0 else in_timeline_order(tables[key])
    return ordered
