"""Connection quotas: each connection counts from the moment it is accepted (Kafka's `ConnectionQuotas`).

An acceptor asks here with every connection. It has to wait while the broker or its listener is full, or while
connections come too fast (KIP-402, KIP-612); a connection from an address that has enough of them is refused. Idle ones
are closed after `connections.max.idle.ms` (Kafka's `IdleExpiryManager`).

A listener has limits of its own with `listener.name.<listener>.` before the key; without, those of the broker count for
it, too (`AbstractConfig.valuesWithPrefixOverride`).
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.cluster.advice import (
    CONNECTIONS,
    FAST_ADDRESSES,
    FULL_ADDRESSES,
    about_full_address,
    about_full_broker,
    about_pace,
    about_pace_of_address,
)
from minibroker.config import BrokerConfig
from minibroker.config.broker import read_overrides
from minibroker.config.key_tables import BROKER_KEYS
from minibroker.config.keys import INT_MAX, ConfigError, ConfigResourceType
from minibroker.server.quotas.rates import Rate
from minibroker.server.services import Services

if TYPE_CHECKING:
    from collections.abc import Collection

    from minibroker.server.quotas.host_names import HostNames


MOST: Final = "max.connections"
MOST_OF_ADDRESS: Final = "max.connections.per.ip"
OVERRIDES: Final = "max.connections.per.ip.overrides"
RATE: Final = "max.connection.creation.rate"

UNLIMITED: Final = INT_MAX


class ConnectionLimits:
    """The limits of one broker. ConfigError for a listener's value that is not allowed.

    Args:
        host_names: looks up the hosts of overrides, where there are any.

    Attributes:
        most: connections at once, of all listeners.
        most_of: the same of a listener, by its name.
        rate: connections per second, of all listeners.
        rate_of: the same of a listener, by its name.
        protected: the listener of the brokers among themselves, which `most` and `rate` do not hold back; None where
            there is no other one.
    """

    def __init__(self, config: BrokerConfig, listeners: Iterable[str], host_names: Callable[[], "HostNames"]) -> None:
        names = tuple(listeners)
        self.most = config.integer(MOST)
        self.rate = config.integer(RATE)
        self.most_of = {name: _of_listener(config, name, MOST) for name in names}
        self.rate_of = {name: _of_listener(config, name, RATE) for name in names}
        between = config.optional_text("inter.broker.listener.name") or config.text("security.inter.broker.protocol")
        self.protected = between.upper() if len(names) > 1 else None
        self._of_address = config.integer(MOST_OF_ADDRESS)
        overrides = config.text(OVERRIDES)
        self._overrides: dict[str, int] = {}
        if overrides:
            for host, most in read_overrides(overrides).items():
                host_names().look_up(host, partial(self._note, most))

    def _note(self, most: int, addresses: Iterable[str]) -> None:
        """An override counts from when its host is found; a host that is not found has none."""
        self._overrides.update(dict.fromkeys(addresses, most))

    def most_of_address(self, address: str) -> int:
        """The most connections that an address may have at once."""
        return self._overrides.get(address, self._of_address)


def _of_listener(config: BrokerConfig, listener: str, key: str) -> int:
    name = f"listener.name.{listener.lower()}.{key}"
    for texts in (config.run_time.broker, config.run_time.cluster, config.unknown):
        if name in texts:
            try:
                value = BROKER_KEYS[key].parse(texts[name])
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from None
            assert isinstance(value, int)
            return value
    return config.integer(key)


_logger: Final = logging.getLogger(__name__)
_SECOND_MS: Final = 1000
_STEP_MS: Final = 300
"""Connections are looked at no more often than that; a network thread of Kafka looks as often."""


class IdleExpiry:
    """One timer for all connections, at the time when the one that is silent for longest may have to go.

    A connection that waits for an answer is as silent as any other, as in Kafka.

    Args:
        longest_ms: how long a connection may be silent; less than nothing is for ever.
        permits: the connections, as they come and go.
    """

    def __init__(self, clock: Clock, longest_ms: int, permits: "Collection[ConnectionPermit]") -> None:
        self._clock = clock
        self._longest_ms = longest_ms
        self._permits = permits
        self._timer: Timer | None = None

    def watch(self) -> None:
        """There is a connection."""
        if self._timer is None and self._longest_ms >= 0:
            self._look_after(self._longest_ms)

    def stop(self) -> None:
        """Look no more."""
        self._longest_ms = -1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_after(self, delay_ms: float) -> None:
        self._timer = self._clock.call_later(delay_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        limit_ms = now_ms - self._longest_ms
        silent = [permit for permit in self._permits if permit.active_ms <= limit_ms]
        for permit in silent:
            if not self._is_taking(permit, now_ms):
                _logger.info(
                    "Closing a connection from %s: silent for %d ms", permit.address, now_ms - permit.active_ms
                )
                permit.close()
        if self._permits:
            oldest_ms = min(permit.active_ms for permit in self._permits)
            self._look_after(max(_STEP_MS, oldest_ms + self._longest_ms - now_ms))

    @staticmethod
    def _is_taking(permit: "ConnectionPermit", now_ms: float) -> bool:
        """Has the client read something of a long answer since the last look?"""
        before, permit.seen_unsent = permit.seen_unsent, permit.unsent()
        if not permit.seen_unsent or before == permit.seen_unsent:
            return False
        permit.active_ms = now_ms
        return True


class ConnectionPermit:
    """The place of one connection among those that a broker has.

    Attributes:
        listener: the name of the one that it has come by.
        address: where it has come from.
        active_ms: when something was last read or written; the clock's monotonic time. The one attribute that each
            wake-up writes: a timer for all slots (`idle`) finds the silent ones.
        abort: closes it at once.
        unsent: says how many bytes its client has not taken yet.
        seen_unsent: how many that were when it was last looked at.
    """

    __slots__ = ("_quotas", "abort", "active_ms", "address", "listener", "seen_unsent", "unsent")

    def __init__(self, quotas: "ConnectionQuotas", listener: str, address: str, now_ms: float) -> None:
        self._quotas: ConnectionQuotas | None = quotas
        self.listener = listener
        self.address = address
        self.active_ms = now_ms
        self.abort: Callable[[], object] = _nothing
        self.unsent: Callable[[], int] = _none
        self.seen_unsent = 0

    def release(self) -> None:
        """The connection is closed; more than once is once."""
        quotas, self._quotas = self._quotas, None
        if quotas is not None:
            self.abort, self.unsent = _nothing, _none  # which know the connection, as it knows this
            quotas.leave(self)

    def close(self) -> None:
        """Close the connection, which counts no more."""
        abort = self.abort
        self.release()
        abort()


class Refused(NamedTuple):
    """A connection that may not come in; it is closed after so long."""

    wait_ms: int


class ConnectionQuotas:
    """The connections of one broker.

    ConfigError for limits that there cannot be.

    Attributes:
        taken: how many connections there were since the start, and `left` how many of them are closed.
    """

    def __init__(self, services: Services, node_id: int, listeners: tuple[str, ...]) -> None:
        self._services = services
        self._clock = services.core.clock
        self._node_id = node_id
        self._names = listeners
        config = services.core.config
        self._limits = ConnectionLimits(self._config(), self._names, lambda: self._services.host_names)
        self._permits: dict[ConnectionPermit, None] = {}
        self._of_listener = dict.fromkeys(self._names, 0)
        self._of_address: dict[str, int] = {}
        self._waiting: list[Callable[[], None]] = []
        samples, step_ms = config.integer("quota.window.num"), config.integer("quota.window.size.seconds") * _SECOND_MS
        self._longest_ms = step_ms
        self._rate = Rate(samples, step_ms)
        self._rates = {name: Rate(samples, step_ms) for name in self._names}
        self._idle = IdleExpiry(services.core.clock, config.integer("connections.max.idle.ms"), self._permits)
        self.taken = 0
        self.left = 0

    def __len__(self) -> int:
        return len(self._permits)

    @property
    def rate(self) -> float:
        """Connections per second, lately."""
        return self._rate.measure(self._clock.monotonic_ms())

    def stop(self) -> None:
        """No connection comes any more."""
        self._idle.stop()

    def reconfigure(self) -> None:
        """The configuration has changed."""
        try:
            self._limits = ConnectionLimits(self._config(), self._names, lambda: self._services.host_names)
        except ConfigError as error:  # of what was altered all has been looked at, but files may be written by hand
            _logger.error("Limits of connections stay as they were: %s", error)  # noqa: TRY400 - it says it all
        self._close_excess()
        self._wake()

    def _config(self) -> BrokerConfig:
        """The broker's own, where it has any."""
        configs = self._services.core.configs
        is_altered = bool(configs.all_of(ConfigResourceType.BROKER))
        return configs.of_node(self._node_id) if is_altered else self._services.core.config

    # What an acceptor asks, one after the other

    def pace_ms(self, listener: str) -> int:
        """Count a connection that has come: how long it has to wait since too many have come lately; 0 for no time."""
        now_ms = self._clock.monotonic_ms()
        limits, waits = self._limits, [0]
        for rate, limit in self._paces(listener):
            # Counted also without a limit: one that is set later has a past to go by.
            rate.record(1, now_ms)
            if limit != UNLIMITED:
                waits.append(rate.throttle_ms(limit, now_ms))
        wait_ms = min(max(waits), self._longest_ms)
        if wait_ms:
            advice = about_pace(limits.rate, limits.rate_of[listener], listener)
            self._services.core.advised.advise(CONNECTIONS, advice, advice)
        return wait_ms

    def has_descriptors(self, known: int) -> bool:
        """Whether the process can afford another connection; `known` is any open descriptor. May close log files."""
        return self._services.core.files.make_way_for_connection(known)

    def has_room(self, listener: str) -> bool:
        """Is there room for one more? Otherwise it has to wait until others close."""
        limits = self._limits
        if self._of_listener[listener] >= limits.most_of[listener]:
            full, most = f"The listener {listener}", limits.most_of[listener]
        # KIP-402: the listener between brokers is let in beyond the limit, and another connection goes for it.
        elif listener != limits.protected and len(self._permits) >= limits.most:
            full, most = "The broker", limits.most
        else:
            return True
        advice = about_full_broker(full, most)
        self._services.core.advised.advise(CONNECTIONS, advice, advice)
        return False

    def enter(self, listener: str, address: str) -> ConnectionPermit | Refused:
        """Let a connection in that has waited for its turn, unless its address has had enough of them."""
        wait_ms = self._pace_of_address(listener, address)
        if wait_ms:
            return Refused(wait_ms)
        held, most = self._of_address.get(address, 0), self._limits.most_of_address(address)
        if held >= most:
            _logger.info("Refusing a connection from %s, which has %d of at most %d", address, held, most)
            self._services.core.advised.advise(FULL_ADDRESSES, address, about_full_address(address, most))
            return Refused(0)
        permit = ConnectionPermit(self, listener, address, self._clock.monotonic_ms())
        self._permits[permit] = None
        self._of_listener[listener] += 1
        self._of_address[address] = held + 1
        self.taken += 1
        self._idle.watch()
        if len(self._permits) > self._limits.most:
            self._close_excess()
        return permit

    def leave(self, permit: ConnectionPermit) -> None:
        """A connection is closed."""
        del self._permits[permit]
        self._of_listener[permit.listener] -= 1
        held = self._of_address[permit.address] - 1
        if held:
            self._of_address[permit.address] = held
        else:
            # Clients come from any number of addresses: a zero for each would stay for ever.
            del self._of_address[permit.address]
        self.left += 1
        if self._waiting:
            self._wake()

    def wait(self, again: Callable[[], None]) -> None:
        """Be called when there may be room; once."""
        self._waiting.append(again)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for again in waiting:
            again()

    def _paces(self, listener: str) -> list[tuple[Rate, int]]:
        """The rates that count for a listener, each with its limit."""
        limits = self._limits
        of_listener = self._rates[listener], limits.rate_of[listener]
        return [of_listener] if listener == limits.protected else [(self._rate, limits.rate), of_listener]

    def _pace_of_address(self, listener: str, address: str) -> int:
        """The delay before a connection is closed because too many come from its address."""
        quotas = self._services.quotas
        wait_ms = 0 if quotas is None else quotas.connected(address, self._node_id)
        if wait_ms:
            now_ms = self._clock.monotonic_ms()
            for rate, _ in self._paces(listener):
                # It is refused for its address: the listener's rate must not suffer for one noisy client.
                rate.record(-1, now_ms)
            self._services.core.advised.advise(FAST_ADDRESSES, address, about_pace_of_address(address))
        return wait_ms

    def _close_excess(self) -> None:
        """Close what is too much, those first that have been silent for longest, but none of the protected listener."""
        excess = len(self._permits) - self._limits.most
        if excess <= 0:
            return
        unprotected = [permit for permit in self._permits if permit.listener != self._limits.protected]
        for permit in sorted(unprotected, key=lambda permit: permit.active_ms)[:excess]:
            _logger.info("Closing a connection from %s: there are more than max.connections", permit.address)
            permit.close()


def _nothing() -> None:
    """A connection that has just begun is not open yet."""


def _none() -> int:
    return 0
