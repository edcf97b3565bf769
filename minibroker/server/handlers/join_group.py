"""JoinGroup: become a member of a group, and wait for its next generation.

Versions 0-9. Before version 1 the session timeout is the rebalance timeout, too. From version 4 on a dynamic member is
first given its id (MEMBER_ID_REQUIRED) and joins with it, so that a lost answer leaves no ghost behind (KIP-394).

Static members from version 5 on (KIP-345): one that comes back without its member id takes its old place, without a
rebalance where the group is stable and agrees on the same protocol as before; its former self is fenced. A static
leader that came back so leads without assigning from version 9 on (KIP-814); before, the response says that its
former self leads.

Unlike Kafka, a second JoinGroup of a member ends the first one, with REBALANCE_IN_PROGRESS: Kafka never answers that.
"""

from typing import Final

from minibroker.coordinators.groups.classic.client_quirks import backs_off
from minibroker.coordinators.groups.classic.coordinator import JoiningClient
from minibroker.coordinators.groups.classic.group import Protocol, Reply
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_group
from minibroker_protocol.messages.groups import JoinGroupRequest, JoinGroupResponse

NEEDS: Final = on_group(Operation.READ)


def handle(request: JoinGroupRequest, call: Call) -> JoinGroupResponse | Reply:
    """Answer immediately if no other member has to join (`GroupCoordinatorService.joinGroup`)."""
    session = call.session
    client = JoiningClient(
        call.client_id or "",
        call.client_host,
        call.node,
        call.api_version,
        joins_early=session.early_joiner is not None,
        backs_off=call.services.works_around_clients and backs_off(session.software, call.client_id),
    )
    # The metadata outlives the receive buffer.
    protocols = [Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]
    return call.services.groups.classic.join(request, protocols, client)
