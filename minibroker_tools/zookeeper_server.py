"""A small ZooKeeper: one tree in memory, with ephemeral nodes and watches, for Kafka's brokers and tools.

It serves the requests of ZooKeeper 3.5 that Kafka, its tools and kazoo send (`org.apache.zookeeper.server`). There are
no ACLs, quorums or transactions on disk: every client has all rights, and the tree is empty after a start.
"""

import asyncio
import contextlib
import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, Final, cast

from minibroker.clock import Clock, Timer

VERSION: Final = "3.5.9-minibroker"
_MAX_FRAME_BYTES: Final = 1 << 20
_MIN_TIMEOUT_MS: Final = 4000
_MAX_TIMEOUT_MS: Final = 40000
_NOTIFICATION_XID: Final = -1
_SYNC_CONNECTED: Final = 3
_EPHEMERAL, _SEQUENTIAL = 1, 2


class Operation(IntEnum):
    """The type of a request (`ZooDefs.OpCode`)."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CREATE2 = 15
    AUTH = 100
    SET_WATCHES = 101
    CLOSE_SESSION = -11


class Error(IntEnum):
    """The error of a response (`KeeperException.Code`)."""

    OK = 0
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111


class Event(IntEnum):
    """The type of a watch event (`Watcher.Event.EventType`)."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class ZooKeeperError(Exception):
    """A request that fails with an error code."""

    def __init__(self, code: Error) -> None:
        super().__init__(code.name)
        self.code = code


class _Reader:
    """Reads the values of a request in Jute's encoding. A value that is cut short is a `struct.error`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read(self, kind: str) -> Any:
        """Read a value with a format of `struct`."""
        (value,) = struct.unpack_from(f">{kind}", self._data, self._position)
        self._position += struct.calcsize(f">{kind}")
        return value

    def read_int(self) -> int:
        return cast("int", self.read("i"))

    def read_buffer(self) -> bytes:
        return cast("bytes", self.read(f"{max(0, self.read_int())}s"))

    def read_text(self) -> str:
        return self.read_buffer().decode("utf-8", "replace")

    def read_texts(self) -> list[str]:
        return [self.read_text() for _ in range(self.read_int())]

    def skip_acl(self) -> None:
        for _ in range(self.read_int()):
            self.read_int()  # The permissions. The scheme and the id follow.
            self.read_buffer()
            self.read_buffer()


def _int(value: int) -> bytes:
    return value.to_bytes(4, signed=True)


def _buffer(value: bytes) -> bytes:
    return _int(len(value)) + value


def _text(value: str) -> bytes:
    return _buffer(value.encode())


@dataclass
class _Node:
    data: bytes
    owner: int
    created: int
    created_ms: int
    modified: int
    modified_ms: int
    children_changed: int
    version: int = 0
    children_version: int = 0
    children: dict[str, None] = field(default_factory=dict[str, None])
    next_sequence: int = 0

    def stat(self) -> bytes:
        """Encode the node's Stat."""
        return struct.pack(
            ">qqqqiiiqiiq", self.created, self.modified, self.created_ms, self.modified_ms, self.version,
            self.children_version, 0, self.owner, len(self.data), len(self.children), self.children_changed,
        )  # fmt: skip


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name


class Tree:
    """The nodes, and the watches of the sessions.

    Args:
        clock: The clock of the nodes' timestamps.

    Attributes:
        zxid: The id of the last change.
        nodes: The nodes by path.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.zxid = 0
        self.nodes = {"/": self._new_node(b"")}
        self._watches: dict[tuple[str, bool], dict[Callable[[Event, str], None], None]] = {}

    def _new_node(self, data: bytes, owner: int = 0) -> _Node:
        now_ms = self._clock.now_ms()
        return _Node(data, owner, self.zxid, now_ms, self.zxid, now_ms, self.zxid)

    def node(self, path: str, version: int = -1) -> _Node:
        """Return the node at a path.

        Raises:
            ZooKeeperError: There is none, or it has another version. -1 stands for any version.
        """
        if path not in self.nodes:
            raise ZooKeeperError(Error.NO_NODE)
        if version not in (-1, self.nodes[path].version):
            raise ZooKeeperError(Error.BAD_VERSION)
        return self.nodes[path]

    def watch(self, path: str, notify: Callable[[Event, str], None], *, children: bool = False) -> None:
        """Call `notify` once, with the next change of a node or of its children."""
        self._watches.setdefault((path, children), {})[notify] = None

    def forget(self, notify: Callable[[Event, str], None]) -> None:
        """Remove the watches of a session whose connection has ended."""
        for key, watchers in tuple(self._watches.items()):
            watchers.pop(notify, None)
            if not watchers:
                del self._watches[key]

    def _notify(self, event: Event, path: str, *, children: bool = False) -> None:
        watchers = self._watches.pop((path, children), {})
        if event is Event.DELETED:  # A session with both kinds of watches gets one event.
            watchers |= self._watches.pop((path, True), {})
        for notify in watchers:
            notify(event, path)

    def create(self, path: str, data: bytes, flags: int, session: int) -> str:
        """Create a node and return its path. A number is appended to the path of a sequential node.

        Raises:
            ZooKeeperError: The path is invalid, the node exists, or its parent does not exist or is ephemeral.
        """
        names = (f"{path}1" if flags & _SEQUENTIAL else path).split("/")
        if flags not in range(4) or names[0] or "\0" in path or not {".", ".."}.isdisjoint(names):
            raise ZooKeeperError(Error.BAD_ARGUMENTS)
        if "" in names[1:]:
            raise ZooKeeperError(Error.NODE_EXISTS if path == "/" else Error.BAD_ARGUMENTS)
        parent_path, _ = _split(path)
        parent = self.node(parent_path)
        if parent.owner:
            raise ZooKeeperError(Error.NO_CHILDREN_FOR_EPHEMERALS)
        if flags & _SEQUENTIAL:
            path = f"{path}{parent.next_sequence:010}"
        if path in self.nodes:
            raise ZooKeeperError(Error.NODE_EXISTS)
        self.zxid += 1
        self.nodes[path] = self._new_node(data, session if flags & _EPHEMERAL else 0)
        parent.next_sequence += 1
        parent.children[_split(path)[1]] = None
        self._notify(Event.CREATED, path)
        self._note_children(parent_path)
        return path

    def delete(self, path: str, version: int = -1) -> None:
        """Delete a node.

        Raises:
            ZooKeeperError: The node does not exist, has another version, or has children.
        """
        if self.node(path, version).children:
            raise ZooKeeperError(Error.NOT_EMPTY)
        if path == "/":
            raise ZooKeeperError(Error.BAD_ARGUMENTS)
        self.zxid += 1
        del self.nodes[path]
        parent_path, name = _split(path)
        del self.nodes[parent_path].children[name]
        self._notify(Event.DELETED, path)
        self._note_children(parent_path)

    def _note_children(self, path: str) -> None:
        """Count a change to the children of a node."""
        self.nodes[path].children_version += 1
        self.nodes[path].children_changed = self.zxid
        self._notify(Event.CHILDREN_CHANGED, path, children=True)

    def set(self, path: str, data: bytes, version: int) -> _Node:
        """Replace the data of a node.

        Raises:
            ZooKeeperError: The node does not exist or has another version.
        """
        node = self.node(path, version)
        self.zxid += 1
        node.data, node.modified, node.modified_ms = data, self.zxid, self._clock.now_ms()
        node.version += 1
        self._notify(Event.DATA_CHANGED, path)
        return node

    def end_session(self, session: int) -> None:
        """Delete the ephemeral nodes of a session."""
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self.delete(path)


class _Session:
    """A client's session, which outlives its connection by its timeout."""

    def __init__(self, session_id: int, timeout_ms: int) -> None:
        self.id = session_id
        self.timeout_ms = timeout_ms
        self.writer: asyncio.StreamWriter | None = None
        self.expiry: Timer | None = None


class ZooKeeperServer:
    """Serves the clients of one port.

    Args:
        clock: The clock of timestamps and sessions.
    """

    def __init__(self, clock: Clock) -> None:
        self.tree = Tree(clock)
        self._clock = clock
        self._sessions: dict[int, _Session] = {}
        # Ids of an earlier server must not be valid here: the high bytes are a time, as in ZooKeeper.
        self._ids = itertools.count(clock.now_ms() << 16)
        self._writers: set[asyncio.StreamWriter] = set()
        for path in ("/zookeeper", "/zookeeper/quota"):
            self.tree.create(path, b"", 0, 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: a command of four letters, or a session."""
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, struct.error):
                start = await reader.readexactly(4)
                if start.isalpha():
                    writer.write(self._answer_command(start.decode()).encode())
                    await writer.drain()
                elif int.from_bytes(start) <= _MAX_FRAME_BYTES:
                    await self._serve_session(await reader.readexactly(int.from_bytes(start)), reader, writer)
        finally:
            self._writers.discard(writer)
            writer.close()

    def close(self) -> None:
        """End all connections."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def _answer_command(self, command: str) -> str:
        """Return the answer to a command of four letters (`org.apache.zookeeper.server.command`)."""
        count = len(self.tree.nodes)
        connections = sum(session.writer is not None for session in self._sessions.values())
        statistics = (
            f"Zookeeper version: {VERSION}\nConnections: {connections}\nOutstanding: 0\n"
            f"Zxid: {self.tree.zxid:#x}\nMode: standalone\nNode count: {count}\n"
        )
        monitoring = (
            f"zk_version\t{VERSION}\nzk_server_state\tstandalone\nzk_znode_count\t{count}\n"
            f"zk_num_alive_connections\t{connections}\n"
        )
        answers = {"ruok": "imok", "isro": "rw", "srvr": statistics, "stat": statistics, "mntr": monitoring}
        return answers.get(command, f"{command} is not executed because it is not in the whitelist.\n")

    async def _serve_session(self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = self._connect(request, writer)
        if session is None:
            return

        def notify(event: Event, path: str) -> None:
            header = struct.pack(">iqiii", _NOTIFICATION_XID, -1, Error.OK, event, _SYNC_CONNECTED)
            writer.write(_buffer(header + _text(path)))

        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                if size > _MAX_FRAME_BYTES:
                    return
                fields = _Reader(await reader.readexactly(size))
                self._keep_alive(session)
                xid, operation = fields.read_int(), fields.read_int()
                error, body = Error.OK, b""
                try:
                    body = self._execute(operation, fields, session, notify)
                except ZooKeeperError as failure:
                    error = failure.code
                writer.write(_buffer(struct.pack(">iqi", xid, self.tree.zxid, error) + body))
                await writer.drain()
                if operation == Operation.CLOSE_SESSION:
                    return
        finally:
            self.tree.forget(notify)
            if session.writer is writer:
                session.writer = None

    def _connect(self, request: bytes, writer: asyncio.StreamWriter) -> _Session | None:
        """Create or resume a session. An expired session is refused with the id 0."""
        _version, _seen_zxid, timeout_ms, session_id, _, password = struct.unpack_from(">iqiqi16s", request)
        session = self._sessions.get(session_id) if password == session_id.to_bytes(16, signed=True) else None
        if session_id == 0:
            session = _Session(next(self._ids), min(max(timeout_ms, _MIN_TIMEOUT_MS), _MAX_TIMEOUT_MS))
            self._sessions[session.id] = session
        granted = session or _Session(0, 0)
        answer = struct.pack(">iiqi16s?", 0, granted.timeout_ms, granted.id, 16, granted.id.to_bytes(16), False)
        writer.write(_buffer(answer))
        if session is not None:
            if session.writer is not None:
                session.writer.transport.abort()
            session.writer = writer
            self._keep_alive(session)
        return session

    def _keep_alive(self, session: _Session) -> None:
        """Restart the session's timeout."""
        if session.expiry is not None:
            session.expiry.cancel()
        session.expiry = self._clock.call_later(session.timeout_ms, partial(self._expire, session))

    def _expire(self, session: _Session) -> None:
        self._end_session(session)
        if session.writer is not None:
            session.writer.transport.abort()

    def _end_session(self, session: _Session) -> None:
        if session.expiry is not None:
            session.expiry.cancel()
        if self._sessions.pop(session.id, None) is not None:
            self.tree.end_session(session.id)

    def _execute(  # noqa: PLR0911 - a table of the operations
        self, operation: int, fields: _Reader, session: _Session, notify: Callable[[Event, str], None]
    ) -> bytes:
        """Execute a request, and return the body of its response.

        Raises:
            ZooKeeperError: The request fails.
        """
        tree = self.tree
        match operation:
            case Operation.PING | Operation.AUTH:
                return b""
            case Operation.CLOSE_SESSION:
                self._end_session(session)
                return b""
            case Operation.SYNC:
                return _text(fields.read_text())
            case Operation.CREATE | Operation.CREATE2:
                path, data = fields.read_text(), fields.read_buffer()
                fields.skip_acl()
                created = tree.create(path, data, fields.read_int(), session.id)
                return _text(created) + (tree.node(created).stat() if operation == Operation.CREATE2 else b"")
            case Operation.DELETE:
                tree.delete(fields.read_text(), fields.read_int())
                return b""
            case Operation.SET_DATA:
                return tree.set(fields.read_text(), fields.read_buffer(), fields.read_int()).stat()
            case Operation.EXISTS | Operation.GET_DATA:
                path, watches = fields.read_text(), fields.read("?")
                if watches and (operation == Operation.EXISTS or path in tree.nodes):
                    tree.watch(path, notify)
                node = tree.node(path)
                return (_buffer(node.data) if operation == Operation.GET_DATA else b"") + node.stat()
            case Operation.GET_CHILDREN | Operation.GET_CHILDREN2:
                path, watches = fields.read_text(), fields.read("?")
                node = tree.node(path)
                if watches:
                    tree.watch(path, notify, children=True)
                names = _int(len(node.children)) + b"".join(map(_text, node.children))
                return names + (node.stat() if operation == Operation.GET_CHILDREN2 else b"")
            case Operation.SET_WATCHES:
                return self._set_watches(fields, notify)
            case _:
                raise ZooKeeperError(Error.UNIMPLEMENTED)

    def _set_watches(self, fields: _Reader, notify: Callable[[Event, str], None]) -> bytes:
        """Set the watches of a session again after a reconnect. Changes since then are notified immediately."""
        since = fields.read("q")
        for kind in (Event.DATA_CHANGED, Event.CREATED, Event.CHILDREN_CHANGED):
            for path in fields.read_texts():
                node = self.tree.nodes.get(path)
                event: Event | None = kind
                if node is None:
                    event = None if kind is Event.CREATED else Event.DELETED
                elif kind is not Event.CREATED:
                    changed = node.modified if kind is Event.DATA_CHANGED else node.children_changed
                    event = kind if changed > since else None
                if event is None:
                    self.tree.watch(path, notify, children=kind is Event.CHILDREN_CHANGED)
                else:
                    notify(event, path)
        return b""
