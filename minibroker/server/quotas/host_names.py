"""The addresses of hosts that quotas and limits name: looked up aside from the event loop, one after the other.

A resolver may take ten seconds for a name, or for ever. Only the request that brings the name waits for it.
"""

import socket
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from minibroker.clock import Clock
from minibroker.cluster.durability import Background

_MOST_KNOWN: Final = 1_000
_MOST_WAITING: Final = 1_000
_LONGEST_NAME: Final = 253
Addresses = frozenset[str]
Done = Callable[[Addresses], None]


def addresses_of(host: str, flags: int = 0) -> Addresses:
    """Ask the system's resolver for the addresses of a host; none if there is no such host."""
    try:
        return frozenset(str(each[4][0]) for each in socket.getaddrinfo(host, None, flags=flags))
    except (OSError, UnicodeError):  # the latter is of a name that DNS cannot have
        return frozenset()


class HostNames:
    """Names and their addresses.

    Args:
        clock: bounds how long a request waits.
        aside: runs a function on a thread that nothing waits for, then another one on the event loop.
    """

    def __init__(self, clock: Clock, aside: Background) -> None:
        self._clock = clock
        self._aside = aside
        self._known: dict[str, Addresses] = {}
        self._waiting: dict[str, list[Done]] = {}
        self._queue: deque[str] = deque()
        self._is_busy = False

    def known(self, host: str) -> Addresses | None:
        """The addresses of a host, if they are known without a resolver; None if it has to be asked."""
        known = self._known.get(host)
        if known is None and (len(host) > _LONGEST_NAME or "\0" in host):
            return frozenset()
        return known or addresses_of(host, socket.AI_NUMERICHOST) or None

    def look_up(self, host: str, done: Done) -> None:
        """Have `done` called with the addresses of a host; none if it is not found, or too many hosts are asked for."""
        known = self.known(host)
        if known is None and host not in self._waiting and len(self._waiting) >= _MOST_WAITING:
            known = frozenset[str]()
        if known is not None:
            done(known)
            return
        if host not in self._waiting:
            self._waiting[host] = []
            self._queue.append(host)
        self._waiting[host].append(done)
        self._next()

    def look_up_all(
        self, hosts: Iterable[str], timeout_ms: float, done: Callable[[dict[str, Addresses]], None]
    ) -> None:
        """Have `done` called once with what is known of some hosts when all are looked up, or the time is over."""
        _Search(self, self._clock, hosts, timeout_ms, done)

    def forget(self, host: str, done: Done) -> None:
        """Do not call `done`; a host without waiting requests is not looked up."""
        waiting = self._waiting.get(host, [])
        if done in waiting:
            waiting.remove(done)
            if not waiting and host in self._queue:
                self._queue.remove(host)
                del self._waiting[host]

    def _next(self) -> None:
        if self._queue and not self._is_busy:
            self._is_busy = True
            host = self._queue.popleft()
            found: list[Addresses] = []
            self._aside(lambda: found.append(addresses_of(host)), partial(self._found, host, found))

    def _found(self, host: str, found: list[Addresses]) -> None:
        self._is_busy = False
        addresses = found[0] if found else frozenset[str]()
        if addresses:
            if len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[host] = addresses
        for done in self._waiting.pop(host, ()):
            done(addresses)
        self._next()


class _Search:
    """Several names that requests wait for."""

    def __init__(
        self,
        names: HostNames,
        clock: Clock,
        hosts: Iterable[str],
        timeout_ms: float,
        done: Callable[[dict[str, Addresses]], None],
    ) -> None:
        self._names = names
        self._done = done
        self._found: dict[str, Addresses] = {}
        self._left: dict[str, Done] = {host: partial(self._note, host) for host in dict.fromkeys(hosts)}
        self._timer = clock.call_later(timeout_ms, self._end)
        if not self._left:
            self._end()
        for host, note in tuple(self._left.items()):
            names.look_up(host, note)

    def _note(self, host: str, addresses: Addresses) -> None:
        self._found[host] = addresses
        del self._left[host]
        if not self._left:
            self._end()

    def _end(self) -> None:
        self._timer.cancel()
        for host, note in self._left.items():
            self._names.forget(host, note)
        self._left.clear()
        done, self._done = self._done, _nothing
        done(self._found)


def _nothing(_: dict[str, Addresses]) -> None:
    pass
