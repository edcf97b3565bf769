"""A broken broker: minibroker behind a relay that injects one fault into requests or responses."""

import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.fields.frames import declared_messages
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.primitives import skip_tagged_fields
from minibroker_protocol.schema import schema_of
from tests.broker.grade.changes import Change

Address = tuple[str, int]


@dataclass(frozen=True)
class Mutant:
    """A broker with one fault.

    Attributes:
        name: A description of the fault.
        api: The API whose messages are changed.
        response: Changes a decoded response in place. It also gets the request.
        request: Changes a decoded request in place. It gets the request twice, to have the type of `response`.
        frame: Changes the bytes of a response. None closes the connection instead.
        raw: Changes the bytes of any request, regardless of its API.
        files: Changes the files in a partition's directory after each Produce request.
        restart: Changes the data directory between a kill and the next start.
        caught_by: The check that must fail.
    """

    name: str
    api: ApiKey = ApiKey.API_VERSIONS
    response: Change | None = None
    request: Change | None = None
    frame: Callable[[bytes, int], bytes | None] | None = None
    raw: Callable[[bytes], bytes | None] | None = None
    files: Callable[[str], None] | None = None
    restart: Callable[[str], None] | None = None
    caught_by: str = ""

    @property
    def stage(self) -> str:
        return self.caught_by.partition("/")[0]


def caught(mutants: Mapping[str, Sequence[Mutant]]) -> tuple[Mutant, ...]:
    """Return the mutants in this mapping from the check that must fail to its mutants."""
    return tuple(
        replace(mutant, caught_by=check) for check, check_mutants in mutants.items() for mutant in check_mutants
    )


class Relay:
    """A context manager that relays connections from its own port."""

    def __init__(self, target: Address, mutant: Mutant, data_dir: str | None = None) -> None:
        self._target = target
        self._data_dir = data_dir
        self._mutant = mutant
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()[:2]
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for open_socket in (self._listener, *self._sockets):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                server = socket.create_connection(self._target)
                self._sockets.append(server)
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError, ConnectionError), client, server:
            while True:
                frame = _receive_frame(client)
                if self._mutant.raw is not None:
                    changed = self._mutant.raw(frame)
                    if changed is None:
                        return
                    frame = changed
                if not self._relay(frame, client, server):
                    return

    def _relay(self, frame: bytes, client: socket.socket, server: socket.socket) -> bool:
        """Relay a request and its response. Return False if the connection must be closed."""
        if len(frame) < 14:
            server.sendall(frame)
            return False
        key, version = struct.unpack_from(">hh", frame, 4)
        mutant = self._mutant
        declared = declared_messages(key)
        is_known = declared is not None and version in schema_of(declared.request).versions
        request: Any = None
        start = 0
        if declared is not None and is_known and key in {mutant.api, ApiKey.PRODUCE}:
            view = memoryview(frame)
            start = 4 + read_request_header(view[4:]).body
            if version in schema_of(declared.request).flexible:
                start = skip_tagged_fields(view, start)
            request = decode(declared.request, view, version, start)[0]
            if mutant.request is not None and key == mutant.api:
                mutant.request(request, request)
                frame = _encoded(frame[4:start], request, version)
        server.sendall(frame)
        if key == ApiKey.PRODUCE and request is not None and request.acks == 0:
            return True
        answer = _receive_frame(server)
        if key == ApiKey.PRODUCE and mutant.files is not None and request is not None and self._data_dir is not None:
            mutant.files(os.path.join(self._data_dir, f"{request.topic_data[0].name}-0"))
        if key == mutant.api:
            answered = self._changed(answer, request, version)
            if answered is None:
                return False
            answer = answered
        client.sendall(answer)
        return True

    def _changed(self, answer: bytes, request: Any, version: int) -> bytes | None:
        mutant = self._mutant
        if mutant.frame is not None:
            return mutant.frame(answer, version)
        declared = declared_messages(mutant.api)
        if mutant.response is None or declared is None:
            return answer
        view = memoryview(answer)
        position = 8
        if mutant.api == ApiKey.API_VERSIONS and answer[8:10] == b"\0\x23":
            version = 0
        elif mutant.api != ApiKey.API_VERSIONS and version in schema_of(declared.response).flexible:
            position = skip_tagged_fields(view, position)
        response = decode(declared.response, view, version, position)[0]
        mutant.response(response, request)
        return _encoded(answer[4:position], response, version)


def _encoded(header: bytes, message: Any, version: int) -> bytes:
    out = bytearray(header)
    encode(message, version, out, [])
    return struct.pack(">i", len(out)) + out


def _receive_frame(source: socket.socket) -> bytes:
    head = _receive_exactly(source, 4)
    (length,) = struct.unpack(">i", head)
    return head + _receive_exactly(source, max(length, 0)) if length >= 0 else head


def _receive_exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = source.recv(size - len(data))
        if not chunk:
            raise ConnectionError
        data += chunk
    return bytes(data)
