"""Advice for users whose clients fail for a common reason. Each piece of advice is logged once.

`minibroker serve` prints the advice to stderr. Python programs get it from the logger `minibroker.support.advice`, at
level INFO. The level is WARNING if a client's security settings do not match its listener, since such a client can
never work.

Clients choose the names of topics, groups and users, so each kind of advice is limited to 20 lines a minute. Further
lines are only counted, and their number is logged at the end of the minute.
"""

import logging
import socket
from collections.abc import Sequence
from functools import partial
from typing import Final

from minibroker.clock import Clock
from minibroker.config.names import misspelling

LOGGER: Final = "minibroker.support.advice"
"""The name is public. It is that of the package in which this module was at first."""
_logger: Final = logging.getLogger(LOGGER)
_MAX_COMPARED_TOPICS: Final = 100
"""The maximum number of existing topics compared with a new name."""
MAX_LINES_PER_PERIOD: Final = 20
PERIOD_MS: Final = 60_000
MAX_SUBJECTS: Final = 1000
"""The maximum number of subjects remembered for each kind of advice. The oldest one is forgotten first."""

FAILED_LOGINS: Final = "failed logins ({})"
"""One kind per SASL mechanism."""
MISSING_TOPICS: Final = "missing topics"
LARGE_BATCHES: Final = "batches that are too large"
MOVED_CLOCK: Final = "topics that lost records since the clock was moved on"
LOST_GROUPS: Final = "groups that have lost all members"
FULL_ADDRESSES: Final = "addresses with too many connections"
FAST_ADDRESSES: Final = "addresses that connect too often"
CONNECTIONS: Final = "connections that have to wait"
SECURITY: Final = "clients whose security settings do not fit their listener"
"""The last two kinds of advice contain no text chosen by clients."""

BLOCKED_LOOP: Final = (
    "this line holds up the event loop that the broker runs on, while a client waits for the broker. A client that "
    "blocks (kafka-python, confluent-kafka) waits for itself there: run the broker with `with Broker()`, or call "
    "the client with `await asyncio.to_thread(...)`"
)
"""Advice for an `AsyncBroker` whose event loop is blocked while a client waits for a response."""

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
    """The state of one kind of advice."""

    def __init__(self, now_ms: float) -> None:
        self.began_ms = now_ms
        self.lines = 0
        self.suppressed = 0
        self.given: dict[str, None] = {}


class AdviceLog:
    """The advice that a broker has given so far."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}
        self._security_hints: dict[str, None] = {}

    def security_hints(self) -> list[str]:
        """Return the `SECURITY` advice given since the last reset, including repeats that were not logged."""
        return list(self._security_hints)

    def forget_security_hints(self) -> None:
        """Clear the list returned by `security_hints`."""
        self._security_hints.clear()

    def advise(self, kind: str, about: str, advice: str) -> bool:
        """Log a piece of advice once per subject, and return whether it was logged.

        Args:
            kind: One of the constants of this module. Never text chosen by a client.
            about: The subject of the advice.
            advice: The text. If too much advice of this kind was logged within a minute, it is counted but not
                logged.
        """
        if kind == SECURITY and len(self._security_hints) < MAX_LINES_PER_PERIOD:
            self._security_hints[advice] = None
        now_ms = self._clock.monotonic_ms()
        state = self._kinds.get(kind)
        if state is None:
            state = self._kinds[kind] = _Kind(now_ms)
        if about in state.given:
            return False
        if now_ms - state.began_ms >= PERIOD_MS:
            state.began_ms, state.lines = now_ms, 0
        if state.lines >= MAX_LINES_PER_PERIOD:
            if not state.suppressed:
                remaining_ms = state.began_ms + PERIOD_MS - now_ms
                self._clock.call_later(remaining_ms, partial(_log_suppressed, kind, state), may_wait=True)
            state.suppressed += 1
            return False
        state.lines += 1
        state.given[about] = None
        if len(state.given) > MAX_SUBJECTS:
            del state.given[next(iter(state.given))]
        _logger.log(logging.WARNING if kind == SECURITY else logging.INFO, "%s", advice)
        return True


def _log_suppressed(kind: str, state: _Kind) -> None:
    _logger.info("%s: %d more within a minute, which are not listed", kind, state.suppressed)
    state.suppressed = 0


def explain_first_bytes(start: bytes, listener: str = "PLAINTEXT") -> str | None:
    """Return advice for a client that sends no Kafka requests, based on its first bytes."""
    if start.startswith(_TLS_RECORD):
        protocol = "security.protocol=PLAINTEXT" if listener == "PLAINTEXT" else "a security.protocol without SSL"
        size = int.from_bytes(start[:4])
        # Kafka reads the start of the TLS record as the size of a request (`NetworkReceive`).
        return (
            f"a client speaks TLS, but the listener {listener} does not: give the client {protocol}, or have the "
            f'broker speak TLS, see docs/security.md. (Kafka logs "Invalid receive (size = {size} ...)".)'
        )
    if start.startswith(_HTTP):
        return _TLS_FAILURES["HTTP"]
    return None


def explain_tls_failure(reason: str) -> str | None:
    """Return advice for a failed TLS handshake, based on the reason that OpenSSL reports."""
    return next((advice for part, advice in _TLS_FAILURES.items() if part in reason), None)


def explain_missing_login(listener: str, protocol: str) -> str:
    """Return advice for a client that sends requests where it must authenticate first."""
    return (
        f"the listener {listener} requires a login, and a client sends none: give the client "
        f"security.protocol={protocol}, a sasl.mechanism and a name with a password"
    )


def explain_full_address(address: str, limit: int) -> str:
    """Return advice for an address that has reached its connection limit."""
    return (
        f"a connection from {address} was refused: it has {limit} of them already, which max.connections.per.ip (or "
        "its overrides) allows. A client that opens one and another does not close them, or the limit is too low"
    )


def explain_full_broker(full: str, limit: int) -> str:
    """Return advice for connections that wait for others to close. `full` names the full broker or listener."""
    return f"{full} has all of its {limit} connections (max.connections): new clients wait until others disconnect"


def explain_connection_rate(of_broker: int, of_listener: int, listener: str) -> str:
    """Return advice for connections that exceed the connection rate limit."""
    return (
        f"connections come faster than {min(of_broker, of_listener)} a second to the listener {listener} "
        "(max.connection.creation.rate): they wait"
    )


def explain_address_rate(address: str) -> str:
    """Return advice for an address that connects more often than its quota allows."""
    return f"connections from {address} are closed: they come faster than its quota connection_creation_rate allows"


def explain_needless_login(listener: str, protocol: str) -> str:
    """Return advice for a client that tries to authenticate at a listener without authentication."""
    return (
        f"a client wants to log in, but the listener {listener} has no authentication: give it "
        f"security.protocol={protocol}, or have the broker's `listeners` speak SASL"
    )


def explain_batch_size(topic: str, size: int, limit: int) -> str:
    """Return advice for a batch that is larger than its topic allows."""
    return (
        f"a batch of {size} bytes for {topic} was refused: its max.message.bytes is {limit}. Raise it "
        "(message.max.bytes for all topics), or have the producer send smaller batches"
    )


def explain_lost_members(group: str, session_timeout_ms: int) -> str:
    """Return advice for a group whose last member stopped sending heartbeats."""
    return (
        f"group {group!r} has no members left to read its topics: the last one was silent for longer than its "
        f"session timeout of {session_timeout_ms} ms. It was killed, it does not poll, or it was stopped in a debugger"
    )


def explain_missing_topic(topic: str) -> str:
    """Return advice for a client that requests a topic that does not exist and that the request may not create."""
    return f"a client asks for the topic {topic!r}, which does not exist, and auto.create.topics.enable is false"


def log_topic_creation(name: str, topics: Sequence[str]) -> str | None:
    """Log the automatic creation of a topic, and return the existing topic that was probably meant, or None."""
    intended = misspelling(name, topics) if 0 < len(topics) <= _MAX_COMPARED_TOPICS else None
    if intended is None:
        logging.getLogger("minibroker").info("created topic %r, which a client has asked for", name)
    else:
        _logger.info("created topic %r, which a client has asked for (did you mean %r?)", name, intended)
    return intended


def check_advertised_host(host: str) -> None:
    """Log a warning if the host name cannot be resolved on this machine. The lookup can take seconds."""
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        logging.getLogger("minibroker").warning(
            "the advertised host %s has no address on this machine (%s): clients without an address for it fail after "
            "their first connection",
            host,
            error.strerror,
        )
