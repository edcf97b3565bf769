"""The addresses of hosts named in quotas and limits. They are looked up off the event loop, one at a time.

A resolver may take ten seconds for a name, or hang. Only the request that brought the name waits for it.
"""

import socket
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from minibroker.clock import Clock
from minibroker.cluster.durability import Background

_MAX_CACHED_HOSTS: Final = 1_000
_MAX_WAITING_HOSTS: Final = 1_000
_MAX_NAME_LENGTH: Final = 253
Addresses = frozenset[str]
Done = Callable[[Addresses], None]


def addresses_of(host: str, flags: int = 0) -> Addresses:
    """Return the addresses of a host from the system's resolver, or an empty set if the host is unknown."""
    try:
        return frozenset(str(info[4][0]) for info in socket.getaddrinfo(host, None, flags=flags))
    except (OSError, UnicodeError):  # UnicodeError means that DNS cannot encode the name.
        return frozenset()


class HostNames:
    """Host names and their addresses.

    Args:
        clock: Limits how long a request waits.
        background: Runs a function on a thread that nothing waits for, then another one on the event loop.
    """

    def __init__(self, clock: Clock, background: Background) -> None:
        self._clock = clock
        self._background = background
        self._cached: dict[str, Addresses] = {}
        self._waiting: dict[str, list[Done]] = {}
        self._queue: deque[str] = deque()
        self._is_busy = False

    def cached_addresses(self, host: str) -> Addresses | None:
        """Return the addresses of a host if they are known without asking the resolver, else None."""
        cached = self._cached.get(host)
        if cached is None and (len(host) > _MAX_NAME_LENGTH or "\0" in host):
            return frozenset()
        return cached or addresses_of(host, socket.AI_NUMERICHOST) or None

    def look_up(self, host: str, done: Done) -> None:
        """Look up a host and call `done` with its addresses: none if it is unknown or too many look-ups are pending."""
        cached = self.cached_addresses(host)
        if cached is None and host not in self._waiting and len(self._waiting) >= _MAX_WAITING_HOSTS:
            cached = frozenset[str]()
        if cached is not None:
            done(cached)
            return
        if host not in self._waiting:
            self._waiting[host] = []
            self._queue.append(host)
        self._waiting[host].append(done)
        self._start_lookup()

    def resolve_all(
        self, hosts: Iterable[str], timeout_ms: float, done: Callable[[dict[str, Addresses]], None]
    ) -> None:
        """Look up hosts, then call `done` once, with the addresses found before the timeout."""
        results: dict[str, Addresses] = {}

        def store(host: str, addresses: Addresses) -> None:
            results[host] = addresses
            if len(results) == len(pending):
                end()

        def end() -> None:
            timer.cancel()
            for host, callback in pending.items():
                self.forget(host, callback)
            done(results)

        pending: dict[str, Done] = {host: partial(store, host) for host in dict.fromkeys(hosts)}
        timer = self._clock.call_later(timeout_ms, end)
        for host, callback in pending.items():
            self.look_up(host, callback)
        if not pending:
            end()

    def forget(self, host: str, done: Done) -> None:
        """Cancel a pending call of `done`. A host that no request waits for is not looked up."""
        waiting = self._waiting.get(host, [])
        if done in waiting:
            waiting.remove(done)
            if not waiting and host in self._queue:
                self._queue.remove(host)
                del self._waiting[host]

    def _start_lookup(self) -> None:
        if self._queue and not self._is_busy:
            self._is_busy = True
            host = self._queue.popleft()
            results: list[Addresses] = []
            self._background(lambda: results.append(addresses_of(host)), partial(self._on_found, host, results))

    def _on_found(self, host: str, results: list[Addresses]) -> None:
        self._is_busy = False
        addresses = results[0] if results else frozenset[str]()
        if addresses:
            if len(self._cached) >= _MAX_CACHED_HOSTS:
                del self._cached[next(iter(self._cached))]
            self._cached[host] = addresses
        for done in self._waiting.pop(host, ()):
            done(addresses)
        self._start_lookup()
