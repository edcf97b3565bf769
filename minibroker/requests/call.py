"""The context of a request that a handler gets (`Call`): core, services, session, version and client id."""

from typing import TYPE_CHECKING, NamedTuple

from minibroker.cluster.node import Node
from minibroker.core import Core
from minibroker.requests.session import Session
from minibroker.security.principals import Principal
from minibroker.services import Services

if TYPE_CHECKING:
    from minibroker.security.authorization.acls import Operation, ResourceType


class Call(NamedTuple):
    """One request's surroundings, as handlers see them.

    Attributes:
        core: topics, logs, the cluster and its configuration.
        services: coordinators, rights, quotas.
        session: the connection that the request has come by.
    """

    core: Core
    services: Services
    api_version: int
    client_id: str | None
    session: Session

    @property
    def node(self) -> Node:
        """The node that the client has connected to.

        All nodes share one state and one copy of each log. A handler that serves what one node leads compares
        `partition.leader` with this node.
        """
        return self.session.node

    @property
    def client_host(self) -> str:
        """Where the client is, as Kafka writes addresses."""
        return self.session.client_host

    @property
    def principal(self) -> Principal:
        """The principal that the client has authenticated as."""
        return self.session.principal

    def address_of(self, node: Node) -> tuple[str, int]:
        """(host, port) at which this client should find a node."""
        advertised = self.session.advertised
        return advertised if node is self.session.node else node.address(self.session.listener, advertised)

    def allows(self, operation: "Operation", resource_type: "ResourceType", name: str) -> bool:
        """Whether the client may do this to a resource; without an authorizer it always may."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows(self.session, operation, resource_type, name)

    def allows_somewhere(self, operation: "Operation", resource_type: "ResourceType") -> bool:
        """Whether the client may do this to any resource of a type."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows_somewhere(self.session, operation, resource_type)
