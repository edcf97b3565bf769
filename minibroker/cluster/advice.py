"""Advice for people whose clients fail for a common reason: each is given once.

`minibroker serve` shows it on stderr. Python programs find it at the logger `minibroker.support.advice`, at level INFO;
at level WARNING if a client's security settings do not fit its listener, since such a client can never work.

Clients choose the names of topics, groups and users, so that each kind of advice has a limit of its own: 20 lines a
minute. What comes beyond it is counted, and the number is logged when the minute is over.
"""

import logging
import socket
from collections.abc import Sequence
from functools import partial
from typing import Final

from minibroker.clock import Clock
from minibroker.config.names import misspelling

LOGGER: Final = "minibroker.support.advice"
_logger: Final = logging.getLogger(LOGGER)
_MOST_COMPARED: Final = 100
"""Topics that a new one is compared with."""
MOST_LINES: Final = 20
PERIOD_MS: Final = 60_000
MOST_KEPT: Final = 1000
"""The number of things of one kind that are remembered, to be printed once; then the oldest is forgotten."""

FAILED_LOGINS: Final = "failed logins ({})"
"""A kind for each mechanism, of which there are a few."""
MISSING_TOPICS: Final = "missing topics"
LARGE_BATCHES: Final = "batches that are too large"
MOVED_CLOCK: Final = "topics that lost records since the clock was moved on"
LOST_GROUPS: Final = "groups that have lost all members"
FULL_ADDRESSES: Final = "addresses with too many connections"
FAST_ADDRESSES: Final = "addresses that connect too often"
CONNECTIONS: Final = "connections that have to wait"
SECURITY: Final = "clients whose security settings do not fit their listener"
"""These two kinds of advice contain no text that clients choose."""

_TLS_RECORD: Final = b"\x16\x03"
_TLS_FAILURES: Final = {
    **dict.fromkeys(
        ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG", "BAD_RECORD_TYPE", "INVALID_RECORD"),
        "a client does not use TLS, but its port requires it: give it security.protocol=SSL or SASL_SSL",
    ),
    "HTTP": "a client speaks HTTP; this is a port for Kafka clients (the control plane has another one: --control)",
    **dict.fromkeys(
        ("UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "BAD_CERTIFICATE"),
        "a client does not trust the broker's certificate: give it the certificate of the authority that has signed it "
        "(ssl.ca.location, ssl_cafile, ssl.truststore.location)",
    ),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "a client has no certificate, but ssl.client.auth=required: give it "
    "one with its key (ssl.certificate.location, ssl_certfile, ssl.keystore.location)",
    "CERTIFICATE_VERIFY_FAILED": "the broker does not trust the signer of a client's certificate: "
    "ssl.truststore.location has to name the authority",
    "NO_SHARED_CIPHER": "a client and the broker have no cipher suite in common: see ssl.cipher.suites",
    "UNSUPPORTED_PROTOCOL": "a client speaks another version of TLS: see ssl.enabled.protocols",
}

_HTTP: Final = (b"GET ", b"POST", b"HEAD", b"PUT ")


class _Kind:
    """The advice of one kind so far."""

    __slots__ = ("began_ms", "given", "lines", "suppressed")

    def __init__(self, now_ms: float) -> None:
        self.began_ms = now_ms
        self.lines = 0
        self.suppressed = 0
        self.given: dict[str, None] = {}


class Advised:
    """The advice given in the life of a broker."""

    __slots__ = ("_clock", "_kinds", "_security_hints")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}
        self._security_hints: dict[str, None] = {}

    def clear(self) -> None:
        """Begin again: everything may be printed again."""
        self._kinds.clear()

    def security_hints(self) -> list[str]:
        """The advice of kind `SECURITY` since the last reset, also where it was logged before that."""
        return list(self._security_hints)

    def forget_security_hints(self) -> None:
        """Have `security_hints` begin with those that come from now on."""
        self._security_hints.clear()

    def advise(self, kind: str, about: str, advice: str) -> bool:
        """Log a piece of advice, unless some was logged `about` this, or too much of its kind within a minute.

        Returns whether it was logged. `kind` is one of the constants of this module, and no text that clients choose.
        """
        if kind == SECURITY and len(self._security_hints) < MOST_LINES:
            self._security_hints[advice] = None
        now_ms = self._clock.monotonic_ms()
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = _Kind(now_ms)
        if about in known.given:
            return False
        if now_ms - known.began_ms >= PERIOD_MS:
            known.began_ms, known.lines = now_ms, 0
        if known.lines >= MOST_LINES:
            if not known.suppressed:
                left_ms = known.began_ms + PERIOD_MS - now_ms
                self._clock.call_later(left_ms, partial(_sum_up, kind, known), may_wait=True)
            known.suppressed += 1
            return False
        known.lines += 1
        known.given[about] = None
        if len(known.given) > MOST_KEPT:
            del known.given[next(iter(known.given))]
        _logger.log(logging.WARNING if kind == SECURITY else logging.INFO, "%s", advice)
        return True


def _sum_up(kind: str, known: _Kind) -> None:
    _logger.info("%s: %d more within a minute, which are not listed", kind, known.suppressed)
    known.suppressed = 0


def about_first_bytes(start: bytes, listener: str = "PLAINTEXT") -> str | None:
    """The advice for a client that sends no requests, by its first bytes."""
    if start.startswith(_TLS_RECORD):
        protocol = "security.protocol=PLAINTEXT" if listener == "PLAINTEXT" else "a security.protocol without SSL"
        size = int.from_bytes(start[:4])
        # Kafka takes the beginning of the TLS record for the size of a request (`NetworkReceive`).
        return (
            f"a client speaks TLS, but the listener {listener} does not: give the client {protocol}, or have the "
            f'broker speak TLS, see docs/security.md. (Kafka logs "Invalid receive (size = {size} ...)".)'
        )
    if start.startswith(_HTTP):
        return "a client speaks HTTP; this is a port for Kafka clients (the control plane has another one: --control)"
    return None


def about_tls_failure(reason: str) -> str | None:
    """A client did not get through the handshake, for a reason of OpenSSL's."""
    return next((advice for part, advice in _TLS_FAILURES.items() if part in reason), None)


def about_unauthenticated(listener: str, protocol: str) -> str:
    """A client sends requests where it has to say first who it is."""
    return (
        f"the listener {listener} requires a login, and a client sends none: give the client "
        f"security.protocol={protocol}, a sasl.mechanism and a name with a password"
    )


def about_full_address(address: str, most: int) -> str:
    """An address has as many connections as it may have."""
    return (
        f"a connection from {address} was refused: it has {most} of them already, which max.connections.per.ip (or its "
        "overrides) allows. A client that opens one and another does not close them, or the limit is too low"
    )


def about_full_broker(full: str, most: int) -> str:
    """Connections wait until others close; `full` has no room."""
    return f"{full} has all of its {most} connections (max.connections): new clients wait until others disconnect"


def about_pace(of_broker: int, of_listener: int, listener: str) -> str:
    """Connections come faster than they may."""
    return (
        f"connections come faster than {min(of_broker, of_listener)} a second to the listener {listener} "
        "(max.connection.creation.rate): they wait"
    )


def about_pace_of_address(address: str) -> str:
    """An address connects more often than its quota allows."""
    return f"connections from {address} are closed: they come faster than its quota connection_creation_rate allows"


def about_needless_login(listener: str, protocol: str) -> str:
    """A client wants to log in at a listener without logins."""
    return (
        f"a client wants to log in, but the listener {listener} has no authentication: give it "
        f"security.protocol={protocol}, or have the broker's `listeners` speak SASL"
    )


def about_size(topic: str, size: int, limit: int) -> str:
    """A batch is larger than its topic allows."""
    return (
        f"a batch of {size} bytes for {topic} was refused: its max.message.bytes is {limit}. Raise it "
        "(message.max.bytes for all topics), or have the producer send smaller batches"
    )


def about_lost_members(group: str, session_timeout_ms: int) -> str:
    """The last member of a group was not heard of any more."""
    return (
        f"group {group!r} has no members left to read its topics: the last one was silent for longer than its "
        f"session timeout of {session_timeout_ms} ms. It was killed, it does not poll, or it was stopped in a debugger"
    )


def about_missing(topic: str) -> str:
    """A client asks for a topic that it may not create by asking."""
    return f"a client asks for the topic {topic!r}, which does not exist, and auto.create.topics.enable is false"


def about_standing_loop() -> str:
    """The loop of an `AsyncBroker` stands still while a client waits for an answer."""
    return (
        "this line holds up the event loop that the broker runs on, while a client waits for the broker. A client that "
        "blocks (kafka-python, confluent-kafka) waits for itself there: run the broker with `with Broker()`, or call "
        "the client with `await asyncio.to_thread(...)`"
    )


def tell_creation(name: str, topics: Sequence[str]) -> str | None:
    """Log that a topic was created because a client has asked for it; returns the one that was probably meant."""
    meant = None
    if 0 < len(topics) <= _MOST_COMPARED:
        meant = misspelling(name, topics)
    if meant is None:
        logging.getLogger("minibroker").info("created topic %r, which a client has asked for", name)
    else:
        _logger.info("created topic %r, which a client has asked for (did you mean %r?)", name, meant)
    return meant


def about_advertised(host: str) -> str | None:
    """A warning if the host has no address here, else None. Asks the resolver, which may take seconds."""
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        return (
            f"the advertised host {host} has no address on this machine ({error.strerror}): "
            "clients without an address for it fail after their first connection"
        )
    return None
