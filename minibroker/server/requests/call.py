"""`Call`: the context of a connection's requests for one API in one version. Handlers get it with every request."""

from typing import TYPE_CHECKING, Any

from minibroker.cluster.core import Core
from minibroker.cluster.node import NO_NODE, Node
from minibroker.cluster.partition import Partition
from minibroker.security.principals import Principal
from minibroker.server.requests.session import Session
from minibroker.server.services import Services
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_protocol.messages import current_leader

if TYPE_CHECKING:
    from minibroker.security.authorization.acls import Operation, ResourceType
    from minibroker_protocol.codec import Decoder, PlainDecoder, ResponseEncoder


class Call:
    """The context of a request. A connection caches one for each API, version and client id.

    Attributes:
        core: The topics, the logs, the cluster and its configuration.
        services: The coordinators, authorization and quotas.
        api_version: The version of the response. It is 0 for ApiVersions in an unsupported version.
        session: The session of the connection.
        endpoint: The messages and the handler of the API (`requests.endpoints.Endpoint`).
        header: The bytes of a request between the correlation id and the message, which starts at `body`.
        decode: Decodes requests. None for ApiVersions in an unsupported version.
        encode: Encodes whole response frames.
        plain: The plain shape of the API (`requests.declarations.PlainShape`), or None. `decode_plain` and
            `encode_plain` decode requests and encode responses in this shape.
        may_wait: Whether requests may have to wait until groups are loaded.
    """

    endpoint: Any
    header: Any  # The header stays undecoded, because it is compared with a slice of the frame.
    body: int
    decode: "Decoder | None"
    encode: "ResponseEncoder"
    plain: Any
    decode_plain: "PlainDecoder"
    encode_plain: "ResponseEncoder"
    may_wait: bool

    def __init__(
        self, core: Core, services: Services, api_version: int, client_id: str | None, session: Session
    ) -> None:
        self.core = core
        self.services = services
        self.api_version = api_version
        self.client_id = client_id
        self.session = session

    @property
    def node(self) -> Node:
        """The node that the client is connected to.

        All nodes share one state and one copy of each log. A handler that only the leader may serve compares
        `partition.leader` with this node.
        """
        return self.session.node

    @property
    def client_host(self) -> str:
        """The client's address in Kafka's format."""
        return self.session.client_host

    @property
    def principal(self) -> Principal:
        """The authenticated principal of the client."""
        return self.session.principal

    def address_of(self, node: Node) -> tuple[str, int]:
        """Return the (host, port) at which this client can reach a node."""
        advertised = self.session.advertised
        return advertised if node is self.session.node else node.address(self.session.listener, advertised)

    def hint_of(
        self, partition: Partition, endpoints: "dict[int, current_leader.NodeEndpoint]"
    ) -> "current_leader.LeaderIdAndEpoch":
        """Return the leader of a partition for a response, and add its address to `endpoints` by node id (KIP-951)."""
        leader, epoch = partition.leader, partition.leader_epoch
        if leader is None:
            return current_leader.LeaderIdAndEpoch(leader_id=NO_NODE, leader_epoch=epoch)
        host, port = self.address_of(leader)
        endpoints[leader.id] = current_leader.NodeEndpoint(node_id=leader.id, host=host, port=port, rack=leader.rack)
        return current_leader.LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=epoch)

    def max_fetch_bytes(self, requested: int) -> int:
        """Return the maximum bytes of a fetch: as requested, or less because of the configuration or a quota."""
        limit = min(requested, self.services.fetch_max_bytes)
        quotas = self.services.quotas
        allowed = None if quotas is None else quotas.fetch_bytes(self.session, self.client_id)
        return limit if allowed is None else min(limit, allowed)

    def allows(self, operation: "Operation", resource_type: "ResourceType", name: str) -> bool:
        """Return whether the client may perform an operation on a resource. Always true without an authorizer."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows(self.session, operation, resource_type, name)

    def allows_somewhere(self, operation: "Operation", resource_type: "ResourceType") -> bool:
        """Return whether the client may perform an operation on at least one resource of a type."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows_somewhere(self.session, operation, resource_type)
