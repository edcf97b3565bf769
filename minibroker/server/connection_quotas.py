"""Connection quotas, which count each connection from the moment it is accepted (Kafka's `ConnectionQuotas`).

An acceptor checks them for every connection. It delays the connection while the broker or its listener is full, or
while connections arrive too fast (KIP-402, KIP-612). A connection from an IP address with too many connections is
refused. Idle connections are closed after `connections.max.idle.ms` (Kafka's `IdleExpiryManager`).

The prefix `listener.name.<listener>.` sets a key for one listener. Without it, the broker's value also applies to the
listener (`AbstractConfig.valuesWithPrefixOverride`).
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.advice import (
    CONNECTIONS,
    FAST_ADDRESSES,
    FULL_ADDRESSES,
    explain_address_rate,
    explain_connection_rate,
    explain_full_address,
    explain_full_broker,
)
from minibroker.config import BrokerConfig
from minibroker.config.broker import read_overrides
from minibroker.config.keys import INT_MAX, ConfigError, ConfigResourceType
from minibroker.security.settings import ListenerSettings
from minibroker.server.rates import Rate
from minibroker.server.services import Services

if TYPE_CHECKING:
    from collections.abc import Collection

    from minibroker.server.quotas import HostNames


MOST: Final = "max.connections"
MOST_OF_ADDRESS: Final = "max.connections.per.ip"
OVERRIDES: Final = "max.connections.per.ip.overrides"
RATE: Final = "max.connection.creation.rate"

UNLIMITED: Final = INT_MAX


class ConnectionLimits:
    """The limits of one broker.

    Args:
        config: The configuration of the broker.
        listeners: The names of the listeners.
        host_names: Returns the resolver for host names in overrides, and is called only if there are any.

    Attributes:
        most: The maximum number of open connections of all listeners.
        most_of: The maximum number of open connections of each listener, by name.
        rate: The maximum number of new connections per second of all listeners.
        rate_of: The maximum number of new connections per second of each listener, by name.
        protected: The inter-broker listener, which is exempt from `most` and `rate`. None if there is only one
            listener.

    Raises:
        ConfigError: A listener's value is invalid.
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
            for host, limit in read_overrides(overrides).items():
                host_names().look_up(host, partial(self._add_override, limit))

    def _add_override(self, limit: int, addresses: Iterable[str]) -> None:
        """Add the override of a resolved host. Unknown hosts have no override."""
        self._overrides.update(dict.fromkeys(addresses, limit))

    def max_connections_of(self, address: str) -> int:
        """Return the maximum number of open connections from an IP address."""
        return self._overrides.get(address, self._of_address)


def _of_listener(config: BrokerConfig, listener: str, key: str) -> int:
    settings = ListenerSettings(config, listener)
    return settings.integer(key) if settings.is_own(key) else config.integer(key)


_logger: Final = logging.getLogger(__name__)
_SECOND_MS: Final = 1000
_MIN_CHECK_INTERVAL_MS: Final = 300
"""The shortest time between checks of all connections, as in a network thread of Kafka."""


class IdleExpiry:
    """One timer for all connections, set to the time when the longest idle connection may expire.

    A connection that waits for a response counts as idle, as in Kafka.

    Args:
        clock: The clock of the timer.
        longest_ms: The maximum idle time of a connection, in milliseconds. A negative number means no limit.
        permits: The permits of the open connections.
    """

    def __init__(self, clock: Clock, longest_ms: int, permits: "Collection[ConnectionPermit]") -> None:
        self._clock = clock
        self._longest_ms = longest_ms
        self._permits = permits
        self._timer: Timer | None = None

    def watch(self) -> None:
        """Start the timer if necessary, because there is a new connection."""
        if self._timer is None and self._longest_ms >= 0:
            self._check_after(self._longest_ms)

    def stop(self) -> None:
        """Stop the timer for good."""
        self._longest_ms = -1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_after(self, delay_ms: float) -> None:
        self._timer = self._clock.call_later(delay_ms, self._close_idle)

    def _close_idle(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        limit_ms = now_ms - self._longest_ms
        silent = [permit for permit in self._permits if permit.active_ms <= limit_ms]
        for permit in silent:
            if not self._has_read_more(permit, now_ms):
                _logger.info(
                    "Closing a connection from %s: silent for %d ms", permit.address, now_ms - permit.active_ms
                )
                permit.close()
        if self._permits:
            oldest_ms = min(permit.active_ms for permit in self._permits)
            self._check_after(max(_MIN_CHECK_INTERVAL_MS, oldest_ms + self._longest_ms - now_ms))

    @staticmethod
    def _has_read_more(permit: "ConnectionPermit", now_ms: float) -> bool:
        """Return whether the client has read part of a long response since the last check."""
        before, permit.seen_unsent = permit.seen_unsent, permit.unsent()
        if not permit.seen_unsent or before == permit.seen_unsent:
            return False
        permit.active_ms = now_ms
        return True


class ConnectionPermit:
    """The permit of one open connection.

    Attributes:
        listener: The name of the listener.
        address: The IP address of the client.
        active_ms: The monotonic time of the last read or write, in milliseconds. It is the only attribute written
            in each wake-up. The timer of `IdleExpiry` checks it.
        abort: Closes the connection immediately.
        unsent: Returns the number of bytes that the client has not read yet.
        seen_unsent: The result of `unsent` in the last check.
    """

    def __init__(self, quotas: "ConnectionQuotas", listener: str, address: str, now_ms: float) -> None:
        self._quotas: ConnectionQuotas | None = quotas
        self.listener = listener
        self.address = address
        self.active_ms = now_ms
        self.abort: Callable[[], object] = _do_nothing
        self.unsent: Callable[[], int] = int  # A connection that is not open has 0 unsent bytes.
        self.seen_unsent = 0

    def release(self) -> None:
        """Release the permit of a closed connection. Repeated calls have no effect."""
        quotas, self._quotas = self._quotas, None
        if quotas is not None:
            self.abort, self.unsent = _do_nothing, int  # This breaks the reference cycle with the connection.
            quotas.leave(self)

    def close(self) -> None:
        """Release the permit and close the connection."""
        abort = self.abort
        self.release()
        abort()


class ConnectionQuotas:
    """The open connections of one broker and their quotas.

    Attributes:
        taken: The number of connections accepted since the broker started.
        left: The number of accepted connections that have been closed.

    Raises:
        ConfigError: A limit is invalid.
    """

    def __init__(self, services: Services, node_id: int, listeners: tuple[str, ...]) -> None:
        self._services = services
        self._clock = services.core.clock
        self._node_id = node_id
        self._names = listeners
        config = services.core.config
        self._limits = ConnectionLimits(self._get_config(), self._names, lambda: self._services.host_names)
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
        """The recent rate of new connections per second."""
        return self._rate.measure(self._clock.monotonic_ms())

    def stop(self) -> None:
        """Stop the timer of idle connections."""
        self._idle.stop()

    def reconfigure(self) -> None:
        """Apply a changed configuration."""
        try:
            self._limits = ConnectionLimits(self._get_config(), self._names, lambda: self._services.host_names)
        except ConfigError as error:  # The stored limits may be invalid if a file was edited by hand.
            _logger.error("Limits of connections stay as they were: %s", error)  # noqa: TRY400 - no traceback
        self._close_excess()
        self._wake()

    def _get_config(self) -> BrokerConfig:
        """Return the configuration of this broker, including its own dynamic keys."""
        configs = self._services.core.configs
        is_altered = bool(configs.all_of(ConfigResourceType.BROKER))
        return configs.of_node(self._node_id) if is_altered else self._services.core.config

    # The following methods are the checks of an acceptor, in the order of their calls.

    def pace_ms(self, listener: str) -> int:
        """Count a new connection, and return how long the connection rate delays it, in milliseconds.

        Without a delay, return 0.
        """
        now_ms = self._clock.monotonic_ms()
        limits, waits = self._limits, [0]
        for rate, limit in self._limited_rates(listener):
            # Count without a limit too, so that a limit set later takes recent connections into account.
            rate.record(1, now_ms)
            if limit != UNLIMITED:
                waits.append(rate.throttle_ms(limit, now_ms))
        wait_ms = min(max(waits), self._longest_ms)
        if wait_ms:
            advice = explain_connection_rate(limits.rate, limits.rate_of[listener], listener)
            self._services.core.advice.advise(CONNECTIONS, advice, advice)
        return wait_ms

    def has_descriptors(self, descriptor: int) -> bool:
        """Return whether the process has file descriptors for another connection. May close log files.

        Args:
            descriptor: Any open descriptor.
        """
        return self._services.core.files.make_room_for_connection(descriptor)

    def has_room(self, listener: str) -> bool:
        """Return whether there is room for another connection. Without room, it must wait until others close."""
        limits = self._limits
        if self._of_listener[listener] >= limits.most_of[listener]:
            full, limit = f"The listener {listener}", limits.most_of[listener]
        # The inter-broker listener can exceed the limit (KIP-402). A connection of another listener is then closed.
        elif listener != limits.protected and len(self._permits) >= limits.most:
            full, limit = "The broker", limits.most
        else:
            return True
        advice = explain_full_broker(full, limit)
        self._services.core.advice.advise(CONNECTIONS, advice, advice)
        return False

    def enter(self, listener: str, address: str) -> ConnectionPermit | int:
        """Return the permit for a connection.

        If its IP address has too many connections, return the delay before it is closed, in milliseconds.
        """
        wait_ms = self._address_delay_ms(listener, address)
        if wait_ms:
            return wait_ms
        count, limit = self._of_address.get(address, 0), self._limits.max_connections_of(address)
        if count >= limit:
            _logger.info("Refusing a connection from %s, which has %d of at most %d", address, count, limit)
            self._services.core.advice.advise(FULL_ADDRESSES, address, explain_full_address(address, limit))
            return 0
        permit = ConnectionPermit(self, listener, address, self._clock.monotonic_ms())
        self._permits[permit] = None
        self._of_listener[listener] += 1
        self._of_address[address] = count + 1
        self.taken += 1
        self._idle.watch()
        if len(self._permits) > self._limits.most:
            self._close_excess()
        return permit

    def leave(self, permit: ConnectionPermit) -> None:
        """Count a closed connection."""
        del self._permits[permit]
        self._of_listener[permit.listener] -= 1
        count = self._of_address[permit.address] - 1
        if count:
            self._of_address[permit.address] = count
        else:
            # Delete a count of zero, because the number of client addresses is unlimited.
            del self._of_address[permit.address]
        self.left += 1
        if self._waiting:
            self._wake()

    def wait(self, again: Callable[[], None]) -> None:
        """Register a callback that is called once, when there may be room."""
        self._waiting.append(again)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for again in waiting:
            again()

    def _limited_rates(self, listener: str) -> list[tuple[Rate, int]]:
        """Return the rates that apply to a listener, each with its limit."""
        limits = self._limits
        of_listener = self._rates[listener], limits.rate_of[listener]
        return [of_listener] if listener == limits.protected else [(self._rate, limits.rate), of_listener]

    def _address_delay_ms(self, listener: str, address: str) -> int:
        """Return the delay in ms before a connection is closed because its address opens connections too fast."""
        quotas = self._services.quotas
        wait_ms = 0 if quotas is None else quotas.charge_connection(address, self._node_id)
        if wait_ms:
            now_ms = self._clock.monotonic_ms()
            for rate, _ in self._limited_rates(listener):
                # A connection refused for its address does not count against the listener's rate.
                rate.record(-1, now_ms)
            self._services.core.advice.advise(FAST_ADDRESSES, address, explain_address_rate(address))
        return wait_ms

    def _close_excess(self) -> None:
        """Close the connections in excess of the limit, the longest idle ones first.

        Connections of the protected listener are not closed.
        """
        excess = len(self._permits) - self._limits.most
        if excess <= 0:
            return
        unprotected = [permit for permit in self._permits if permit.listener != self._limits.protected]
        for permit in sorted(unprotected, key=lambda permit: permit.active_ms)[:excess]:
            _logger.info("Closing a connection from %s: there are more than max.connections", permit.address)
            permit.close()


def _do_nothing() -> None:
    """Do nothing, for a connection that is not open yet."""
