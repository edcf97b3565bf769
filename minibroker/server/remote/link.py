"""The link between the processes of one cluster: its messages, and how they are framed.

The broker with the logs is the *holder*; the other brokers are *members*. Every connection of the link begins with a
greeting and a message from the member. What follows depends on the message:

| message    | the holder answers                                                                           |
|------------|----------------------------------------------------------------------------------------------|
| `Register` | `ClusterState`, and again after each change and each `Heartbeat`; the node ends with the connection |
| `Connect`  | one byte; after that, both sides forward the bytes of a client's connection                  |
| `Ask`      | `Claim`, and the connection ends. Processes without the logs answer, too.                    |
| any other  | `Refusal`, and the connection ends                                                           |

A message is a length of four bytes and a JSON object whose `type` is the name of its class.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias, cast

from minibroker.cluster.listeners import WILDCARDS, ServedListener
from minibroker.cluster.topic_admin import TopicSpec

Address = tuple[str, int]
"""A host and a port."""
GREETING: Final = b"minibroker link 3\n"
REGISTRY: Final = "schema registry"
"""The listener of a `Connect` for the holder's schema registry."""
_CHUNK_BYTES: Final = 1 << 18
ACCEPTED: Final = b"+"
MAX_REQUEST_BYTES: Final = 1 << 20
_MAX_MESSAGE_BYTES: Final = 1 << 28
_LENGTH_BYTES: Final = 4


class LinkError(OSError):
    """The other side of the link refused a request or broke the protocol."""


class RegistrationError(LinkError):
    """The holder refuses a broker permanently: its id is taken, a topic is invalid, or the holder lacks settings."""


@dataclass(frozen=True)
class Endpoint:
    """The address that clients get for a listener, and the listener's security protocol."""

    host: str
    port: int
    protocol: str

    @classmethod
    def of(cls, listener: ServedListener) -> "Endpoint":
        """Return the advertised address of an open listener, or else the address that it is bound to.

        A listener on all interfaces is reached by the name of this machine.
        """
        bound_host = socket.gethostname() if listener.host in WILDCARDS else listener.host
        host, port = listener.advertised or (bound_host, 0)
        return cls(host, port or listener.port, listener.protocol)


@dataclass(frozen=True)
class Register:
    """Registers a broker, like Kafka's BrokerRegistration.

    Attributes:
        node_id: The id of the broker, or -1 to be given a free one.
        rack: The rack of the broker, or None.
        endpoints: The listeners by name.
        incarnation: The id of the process, which may replace its own earlier registration (`incarnation.id`).
        topics: The topics to create, unless they exist.
    """

    node_id: int
    rack: str | None
    endpoints: dict[str, Endpoint]
    incarnation: str
    topics: Sequence[TopicSpec] = ()


@dataclass(frozen=True)
class Heartbeat:
    """Tells the holder that the member is alive."""


@dataclass(frozen=True)
class Connect:
    """Passes a client's connection on.

    Attributes:
        node_id: The broker that the client has connected to.
        listener: The name of the listener.
        peer: The client's host and port.
        dialed: The host and port that the client has connected to.
        certificate: The client's TLS certificate in DER, as hexadecimal digits; empty without one.
    """

    node_id: int
    listener: str
    peer: Address
    dialed: Address
    certificate: str = ""


@dataclass(frozen=True)
class Ask:
    """Asks a process about the holder, and can offer a broker to hold the logs.

    Attributes:
        node_id: The id of the offered broker, or -1 without an offer.
        port: The port of its link.
    """

    node_id: int = -1
    port: int = 0


@dataclass(frozen=True)
class Claim:
    """A process's information about the holder.

    Attributes:
        node_id: The id of the process, or -1 if the holder has not given it one yet.
        incarnation: A unique id of the process, by which it recognizes its own answer.
        is_holder: Whether the process holds the logs itself.
        holder: The address of the holder's link, if this process is a controller that has given it the logs.
    """

    node_id: int
    incarnation: str
    is_holder: bool = False
    holder: Address | None = None


@dataclass(frozen=True)
class Refusal:
    """Refuses a request.

    Attributes:
        reason: The reason as a sentence.
        is_final: Whether the broker cannot join, however often it tries (`RegistrationError`).
    """

    reason: str
    is_final: bool = False


@dataclass(frozen=True)
class ClusterState:
    """What a member needs to know to answer clients while the holder is away.

    Attributes:
        cluster_id: The id of the cluster.
        node_id: The id of the member.
        holder_id: The id of the holder.
        nodes: Each broker's rack and endpoints, by its id as a text.
        files: The metadata files of the holder's data directory, by name. A file that has not changed since the
            last message is left out.
    """

    cluster_id: str
    node_id: int
    holder_id: int
    nodes: dict[str, tuple[str | None, dict[str, Endpoint]]]
    files: dict[str, str] = field(default_factory=dict[str, str])


Message: TypeAlias = Register | Heartbeat | Connect | Ask | Claim | Refusal | ClusterState
_TYPES: Final = {kind.__name__: kind for kind in (Register, Heartbeat, Connect, Ask, Claim, Refusal, ClusterState)}


def encode(message: Message) -> bytes:
    """Encode a message with its length."""
    data = json.dumps({"type": type(message).__name__, **asdict(message)}).encode()
    return len(data).to_bytes(_LENGTH_BYTES) + data


async def read_message(reader: asyncio.StreamReader, max_bytes: int = _MAX_MESSAGE_BYTES) -> Message:
    """Read a message.

    Raises:
        LinkError: The bytes are not a message, or the message is a refusal.
        RegistrationError: The refusal is final.
        asyncio.IncompleteReadError: The connection has ended.
    """
    size = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
    if size > max_bytes:
        raise LinkError(f"a message of the link has {size} bytes")
    data = await reader.readexactly(size)
    try:
        fields = cast("dict[str, Any]", json.loads(data))
        message = _TYPES[fields.pop("type")](**_convert_fields(fields))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LinkError(f"not a message of the link: {data[:100]!r}") from None
    if isinstance(message, Refusal):
        raise (RegistrationError if message.is_final else LinkError)(message.reason)
    return message


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write everything from `reader` to `writer`, and close it at the end."""
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


def _convert_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Turn the objects and lists of JSON into the types of the messages."""
    if "endpoints" in fields:
        fields["endpoints"] = _convert_endpoints(fields["endpoints"])
    if "topics" in fields:
        fields["topics"] = [TopicSpec(*spec) for spec in fields["topics"]]
    if "nodes" in fields:
        fields["nodes"] = {
            node: (rack, _convert_endpoints(endpoints)) for node, (rack, endpoints) in fields["nodes"].items()
        }
    for name in ("peer", "dialed", "holder"):
        if fields.get(name) is not None:
            host, port = fields[name]
            fields[name] = (str(host), int(port))
    return fields


def _convert_endpoints(content: dict[str, dict[str, Any]]) -> dict[str, Endpoint]:
    return {name: Endpoint(**endpoint) for name, endpoint in content.items()}
