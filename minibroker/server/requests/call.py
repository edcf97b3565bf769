"""`Call`: an API as one connection uses it, in one version. Handlers get it with every request."""

from typing import TYPE_CHECKING, Any

from minibroker.cluster.core import Core
from minibroker.cluster.node import Node
from minibroker.security.principals import Principal
from minibroker.server.requests.session import Session
from minibroker.server.services import Services

if TYPE_CHECKING:
    from minibroker.security.authorization.acls import Operation, ResourceType
    from minibroker_protocol.codec import Decoder, PlainDecoder, ResponseEncoder


class Call:
    """The surroundings of a request. A connection keeps them for each API, version and client id that it uses.

    Attributes:
        core: topics, logs, the cluster and its configuration.
        services: coordinators, rights, quotas.
        api_version: the version of the response. It is 0 for ApiVersions in a version that is not served.
        session: the connection of the client.
        endpoint: the API's messages and its handler (`requests.endpoints.Endpoint`).
        header: the bytes of a request between the correlation id and the message, which begins at `body`.
        decode: decodes requests; None for ApiVersions in a version that is not served.
        encode: encodes whole response frames.
        plain: the way of requests in the plain shape (`requests.declarations.PlainShape`), or None; `decode_plain` and
            `encode_plain` are its codec.
        may_wait: whether requests may have to wait for changes of metadata, or for groups to be loaded.
    """

    __slots__ = (
        "api_version",
        "body",
        "client_id",
        "core",
        "decode",
        "decode_plain",
        "encode",
        "encode_plain",
        "endpoint",
        "header",
        "may_wait",
        "plain",
        "services",
        "session",
    )

    endpoint: Any
    header: Any  # bytes, which a slice of a frame is compared with
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
