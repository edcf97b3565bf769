"""Accepts the connections of a listener while there is room for them (Kafka's `Acceptor`).

asyncio's own server accepts every connection, up to a whole backlog in one turn. Here a connection is accepted only if
the broker's quotas allow it. Otherwise one accepted connection waits, and later ones stay in the kernel's backlog, as
with Kafka's acceptors. While file descriptors are short, all new connections stay in the backlog.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.server.connection import Connection
from minibroker.server.connection_quotas import ConnectionPermit, ConnectionQuotas

_logger: Final = logging.getLogger(__name__)

_SHORTAGE_ERRORS: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_RETRY_S: Final = 0.1
_WARNING_INTERVAL_S: Final = 60.0


class Acceptor:
    """Accepts connections on bound sockets, which it owns.

    Args:
        sockets: The bound sockets of the listener.
        listener: The name of the listener.
        make: Creates the connection for a permit.
        quotas: The connection quotas of the node.
        clock: The clock that times delays.
        backlog: The maximum number of connections waiting in the kernel.

    Attributes:
        sockets: The open sockets.
        entering: The tasks that create connections.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        listener: str,
        make: Callable[[ConnectionPermit], Connection],
        quotas: ConnectionQuotas,
        clock: Clock,
        backlog: int,
    ) -> None:
        self.sockets = sockets
        self._listener = listener
        self._make = make
        self._quotas = quotas
        self._clock = clock
        self._backlog = backlog
        self.loop = asyncio.get_running_loop()
        self.entering: set[asyncio.Task[None]] = set()
        self._not_started: set[socket.socket] = set()
        self._refused: dict[socket.socket, Timer] = {}
        self._held: socket.socket | None = None
        """An accepted connection that waits for the quotas, as do all later ones."""
        self._held_until_ms = 0.0
        self._warn_at = 0.0
        for listening in sockets:
            listening.setblocking(False)
            listening.listen(backlog)
        self._listen()

    def stop(self) -> None:
        """Stop accepting. The sockets stay open."""
        for listening in self.sockets:
            self.loop.remove_reader(listening)

    def close(self) -> None:
        """Stop accepting and close the sockets. Connections that were accepted are still set up; see `wait_closed`."""
        self.stop()
        for listening in self.sockets:
            listening.close()
        self.sockets = []
        for refused, timer in self._refused.items():
            timer.cancel()
            refused.close()
        self._refused.clear()
        if self._held is not None:
            self._held.close()
            self._held = None

    async def wait_closed(self) -> None:
        """Wait until all accepted connections are open or closed."""
        while self.entering:
            await asyncio.wait(self.entering)

    def _listen(self) -> None:
        for listening in self.sockets:
            self.loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._backlog):
            if self._held is not None:
                return
            if not self._quotas.has_descriptors(listening.fileno()):
                self._pause_accepting(listening, os.strerror(errno.EMFILE))
                return
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORTAGE_ERRORS:
                    raise
                self._pause_accepting(listening, error.strerror)
                return
            accepted.setblocking(False)
            wait_ms = self._quotas.pace_ms(self._listener)
            if wait_ms or not self._quotas.has_room(self._listener):
                self._pause_for(accepted, wait_ms)
            else:
                self._admit(accepted)

    def _pause_accepting(self, listening: socket.socket, reason: str | None) -> None:
        """Stop accepting for a moment, and log a warning at most once per minute."""
        now = self.loop.time()
        if now >= self._warn_at:
            self._warn_at = now + _WARNING_INTERVAL_S
            _logger.warning("Connections have to wait: %s", reason)
        self.loop.remove_reader(listening)
        self.loop.call_later(_RETRY_S, self._resume_accepting, listening)

    def _resume_accepting(self, listening: socket.socket) -> None:
        if listening in self.sockets and self._held is None:
            self.loop.add_reader(listening, self._accept, listening)

    def _pause_for(self, accepted: socket.socket, wait_ms: int) -> None:
        self.stop()
        self._held = accepted
        self._held_until_ms = self._clock.monotonic_ms() + wait_ms
        if wait_ms:
            self._clock.call_later(wait_ms, self._retry_held)
        else:
            self._quotas.wait(self._retry_held)

    def _retry_held(self) -> None:
        """Admit the waiting connection if its delay has passed and there is room."""
        waiting = self._held
        if waiting is None:
            return
        if self._clock.monotonic_ms() >= self._held_until_ms and self._quotas.has_room(self._listener):
            self._held = None
            self._admit(waiting)
            self._listen()
        else:
            self._quotas.wait(self._retry_held)

    def _admit(self, accepted: socket.socket) -> None:
        try:
            address = str(accepted.getpeername()[0])
        except OSError:  # The client disconnected before its connection was accepted.
            accepted.close()
            return
        permit = self._quotas.enter(self._listener, address)
        if isinstance(permit, ConnectionPermit):
            self._not_started.add(accepted)
            task = self.loop.create_task(self._enter(accepted, permit))
            permit.abort = task.cancel
            self.entering.add(task)
            task.add_done_callback(partial(self._finish_entering, accepted, permit))
        else:
            self._refuse(accepted, permit)

    def _refuse(self, accepted: socket.socket, wait_ms: int) -> None:
        """Close a refused connection after a delay. If it failed immediately, the client would retry immediately."""
        if wait_ms:
            self._refused[accepted] = self._clock.call_later(wait_ms, lambda: self._close(accepted))
        else:
            accepted.close()

    def _close(self, refused: socket.socket) -> None:
        if self._refused.pop(refused, None) is not None:
            refused.close()

    async def _enter(self, accepted: socket.socket, permit: ConnectionPermit) -> None:
        """Create the connection, which holds the permit from now on."""
        self._not_started.discard(accepted)
        connection = self._make(permit)
        try:
            await self.open(accepted, connection)
        finally:
            if not connection.is_open:
                permit.release()

    async def open(self, accepted: socket.socket, connection: Connection) -> None:
        """Open a connection on its socket."""
        await self.loop.connect_accepted_socket(lambda: connection, accepted)

    def _finish_entering(self, accepted: socket.socket, permit: ConnectionPermit, task: asyncio.Task[None]) -> None:
        self.entering.discard(task)
        if accepted in self._not_started:  # The task was canceled before it began.
            self._not_started.discard(accepted)
            accepted.close()
            permit.release()
        elif not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, OSError):  # An OSError means that the client has disconnected.
                _logger.error("A connection could not be taken", exc_info=error)
            accepted.close()
