"""The ports of `serve --admin-api`, which serve small HTTP/1.1 requests on the broker's event loop."""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

import h11

from minibroker.config.addresses import is_loopback, parse_address
from minibroker.config.names import suggestion
from minibroker_control.vendors import apis
from minibroker_control.vendors.apis import AdminRequest, Answer, refusal
from minibroker_control.web_pages import refusal_of

if TYPE_CHECKING:
    from minibroker.server.services import Services

_logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 100
"""The connection limit of a port. A further connection closes the oldest one."""
_LARGEST_HEAD: Final = 16_384
_LARGEST_BODY: Final = 65_536
_KINDS: Final[dict[str, Callable[["Services", AdminRequest], Answer]]] = {
    "redpanda": apis.answer_as_redpanda,
    "confluent": apis.answer_as_confluent,
    "absent": apis.answer_as_absent,
}


class _Port(NamedTuple):
    """The address of a port, and the function that answers its requests."""

    answer: Callable[["Services", AdminRequest], Answer]
    host: str
    number: int


class AdminPorts:
    """Servers for a list of KIND=HOST:PORT.

    Raises:
        ValueError: An item of the list does not have this form.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._given = [_parse_port(text) for text in texts]
        self._servers: list[asyncio.Server] = []
        self._connections: deque[_Connection] = deque()

    @property
    def ports(self) -> list[int]:
        """The open ports."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def open(self, services: "Services") -> None:
        """Start listening.

        Raises:
            OSError: An address cannot be bound. The message names the address.
        """
        loop = asyncio.get_running_loop()
        for port in self._given:

            def connection(port: _Port = port) -> _Connection:
                own_host = port.host if is_loopback(port.host) else None
                return _Connection(lambda question: port.answer(services, question), self._connections, own_host)

            try:
                self._servers.append(await loop.create_server(connection, port.host, port.number))
            except OSError as error:
                reason = f"--admin-api: cannot listen on {port.host}:{port.number}: {error.strerror or error}"
                raise OSError(error.errno, reason) from None

    def close(self) -> None:
        """Close the ports and their connections."""
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.abort()


def _parse_port(text: str) -> _Port:
    kind, equals, address = text.partition("=")
    if not equals:
        raise ValueError(f"--admin-api: {text!r} is not KIND=HOST:PORT")
    if kind not in _KINDS:
        kinds = ", ".join(_KINDS)
        raise ValueError(f"--admin-api: {kind!r} is not one of {kinds}{suggestion(kind, _KINDS)}")
    return _Port(_KINDS[kind], *parse_address(address, "--admin-api"))


class _Connection(asyncio.Protocol):
    """A client's connection."""

    def __init__(
        self, answer: Callable[[AdminRequest], Answer], connections: "deque[_Connection]", own_host: str | None
    ) -> None:
        self._answer = answer
        self._own_host = own_host
        self._kept = connections
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST_HEAD)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._kept.append(self)
        if len(self._kept) > MAX_CONNECTIONS:
            self._kept.popleft().abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        if self in self._kept:
            self._kept.remove(self)

    def abort(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while self._process(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))

    def _process(self, event: object) -> bool:
        """Process one event, and return whether another one can follow."""
        if isinstance(event, h11.Request):
            self._head, self._body = event, bytearray()
            if self._http.they_are_waiting_for_100_continue:
                self._write(h11.InformationalResponse(status_code=100, headers=[]))
        elif isinstance(event, h11.Data):
            self._body += event.data
            if len(self._body) > _LARGEST_BODY:
                self._refuse(413, f"a body has {_LARGEST_BODY} bytes at most")
                return False
        elif isinstance(event, h11.EndOfMessage):
            assert self._head is not None
            method, target = self._head.method.decode("ascii"), self._head.target.decode("ascii")
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._head.headers}
            # A host name without a dot is accepted, because it belongs to a service in a container network. The host
            # names of web pages contain a dot.
            is_service = "." not in headers.get("host", ".")
            reason = refusal_of(headers.get, None if is_service else self._own_host)
            if reason is not None:
                self._respond(*refusal(HTTPStatus.FORBIDDEN, reason))
            else:
                self._respond(*self._safe_answer(AdminRequest(method, target.partition("?")[0], bytes(self._body))))
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                self._close()
                return False
            self._http.start_next_cycle()
        else:
            return False
        return True

    def _safe_answer(self, question: AdminRequest) -> Answer:
        try:
            return self._answer(question)
        except Exception as error:
            _logger.exception("%s %s failed", question.method, question.path)
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")

    def _refuse(self, status: int, message: str) -> None:
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self._respond(status, {"message": message, "code": status})
        self._close()

    def _respond(self, status: int, content: object) -> None:
        body = json.dumps(content, separators=(",", ":")).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        self._write(h11.Response(status_code=status, headers=headers))
        is_head = self._head is not None and self._head.method == b"HEAD"
        if not is_head:
            self._write(h11.Data(data=body))
        self._write(h11.EndOfMessage())

    def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if self._transport is not None and data:
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
