"""A connection to one broker. Requests are sent in the newest version that both sides support."""

import socket
import struct
import time
from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import ProtocolError
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages import key_of, messages_of
from minibroker_protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from minibroker_protocol.primitives import skip_tagged_fields
from minibroker_protocol.schema import schema_of
from minibroker_tools.client.settings import Settings
from minibroker_tools.failures import ApiError, TimedOutError, UnreachableError, check

with lazy:
    from minibroker_tools.client import security

_HEADER: Final = struct.Struct(">hhi")
_API_VERSIONS_VERSION: Final = 3
_LAST_VERSIONS_BY_NAME: Final = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DELETE_TOPICS: 5,
}
"""The last request versions that identify topics by name. Later versions accept only topic ids."""
_MAX_FRAME_BYTES: Final = 1 << 30


class Connection:
    """A connection with TLS and SASL as configured. `versions` maps each API key to the broker's versions."""

    def __init__(self, address: tuple[str, int], settings: Settings, deadline: float) -> None:
        """Connect, and authenticate if the settings require it.

        Args:
            address: The broker's host and port.
            settings: The client's properties.
            deadline: The `time.monotonic` value at which connecting and later requests time out.

        Raises:
            OSError: The connection failed.
            UnreachableError: The broker did not answer in time, or does not use Kafka's protocol.
            ToolError: The broker refused the login, or the TLS handshake failed.
        """
        self.address = address
        self._settings = settings
        self._correlation_id = 0
        self._request_timeout = settings.milliseconds("request.timeout.ms")
        self._deadline = deadline
        connect_timeout = min(settings.milliseconds("socket.connection.setup.timeout.ms"), self._remaining_s())
        self.versions: dict[int, ApiVersion] = {}
        self._socket = socket.create_connection(address, timeout=connect_timeout)
        try:
            self._open()
        except BaseException:
            self._socket.close()
            raise

    def _open(self) -> None:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._settings.protocol.endswith("SSL"):
            self._socket = security.encrypt(self._socket, self.address[0], self._settings)
        self.api_versions = self._ask_api_versions()
        self.versions = {api.api_key: api for api in self.api_versions.api_keys}
        if self._settings.protocol.startswith("SASL"):
            security.log_in(self, self._settings)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def extend(self, deadline: float) -> None:
        """Set the deadline for subsequent requests."""
        self._deadline = deadline

    def version_for(self, request: object) -> int:
        """Return the version to use for a request.

        Raises:
            ApiError: UNSUPPORTED_VERSION if the client and the broker share no version.
        """
        key = key_of(type(request))
        supported = schema_of(type(request)).versions
        served = self.versions.get(key)
        if served is not None:
            version = min(supported.last, served.max_version, _LAST_VERSIONS_BY_NAME.get(key, supported.last))
            if version >= max(supported.first, served.min_version):
                return version
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"The broker does not support {key.message}")

    def ask(self, request: object, *, version: int | None = None, wait: float = 0.0) -> Any:
        """Send a request and return its response.

        Args:
            request: The request.
            version: The version of the request, or None for the newest version that both sides support.
            wait: The time in seconds to wait in addition to `request.timeout.ms`.

        Raises:
            UnreachableError: The connection broke.
            ApiError: UNSUPPORTED_VERSION if the client and the broker share no version.
        """
        version = self.version_for(request) if version is None else version
        self.send(request, version, wait=wait)
        return self.receive(request, version)

    def send(self, request: object, version: int, *, wait: float = 0.0) -> None:
        """Send a request without waiting for its response.

        `receive` returns the response. A Produce request with acks=0 has none.
        """
        self._correlation_id += 1
        client = self._settings.client_id.encode()
        frame = bytearray(4)
        frame += _HEADER.pack(key_of(type(request)), version, self._correlation_id)
        frame += struct.pack(">h", len(client)) + client
        if version in schema_of(type(request)).flexible:
            frame.append(0)
        encode(request, version, frame, [])
        struct.pack_into(">i", frame, 0, len(frame) - 4)
        self._socket.settimeout(min(self._request_timeout + wait, self._remaining_s() + wait))
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise self._connection_error(error) from None

    def receive(self, request: object, version: int) -> Any:
        """Return the response to the last request sent."""
        data = self._receive_frame()
        position = 4
        if version in schema_of(type(request)).flexible and not isinstance(request, ApiVersionsRequest):
            position = skip_tagged_fields(data, position)
        try:
            return decode(messages_of(key_of(type(request))).response, data, version, position)[0]
        except ProtocolError as error:
            raise UnreachableError(f"{self}: the response makes no sense: {error}") from None

    def _ask_api_versions(self) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="minibroker-tools", client_software_version="1")
        self.send(request, _API_VERSIONS_VERSION)
        data = self._receive_frame()
        response: ApiVersionsResponse
        # Kafka before 2.4 answers in version 0 (KIP-511).
        if bytes(data[4:6]) == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            response = self.ask(ApiVersionsRequest(), version=0)
        else:
            try:
                response = decode(ApiVersionsResponse, data, _API_VERSIONS_VERSION, 4)[0]
            except ProtocolError as error:
                raise UnreachableError(f"{self} speaks another protocol than Kafka's: {error}") from None
        check(response.error_code)
        return response

    def _receive_frame(self) -> memoryview:
        try:
            (length,) = struct.unpack(">i", self._receive(4))
            if not 0 <= length <= _MAX_FRAME_BYTES:
                raise UnreachableError(f"{self} speaks another protocol than Kafka's")
            data = memoryview(self._receive(length))
        except OSError as error:
            raise self._connection_error(error) from None
        if (correlation_id := int.from_bytes(data[:4], "big")) != self._correlation_id:
            # Skip the response to an earlier request if a signal interrupted the wait for it.
            if 0 < correlation_id < self._correlation_id:
                return self._receive_frame()
            raise UnreachableError(f"{self} answered another request than the one that was sent")
        return data

    def _receive(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(min(size - len(data), 1 << 20))
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            data += chunk
        return data

    def _connection_error(self, error: OSError) -> UnreachableError:
        kind = TimedOutError if isinstance(error, TimeoutError) else UnreachableError
        return kind(f"{self}: {error}")

    def _remaining_s(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"
