"""The SASL authentication of a connection, before its first request and again when its session ends.

The states and what may come in each are those of Kafka's `SaslServerAuthenticator` (KIP-43, KIP-152, KIP-368):
ApiVersions at most once, SaslHandshake, then tokens: in SaslAuthenticate requests, or bare ones after SaslHandshake v0.
Whatever else comes closes the connection. A client that has failed learns of it after
`connection.failed.authentication.delay.ms`, and the connection closes.
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from minibroker.cluster.advice import FAILED_LOGINS
from minibroker.cluster.routing.outcomes import NO_ANSWER, Answer, DelayedResponse, Waiting
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.security.principals import USER, Principal, one_line
from minibroker.security.sasl.mechanism import SaslAuthenticationError, SaslError, SaslServer
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.clock import Timer
    from minibroker.cluster.routing.outcomes import Channel, Outcome, Take
    from minibroker.security.listener_security import ListenerSecurity
    from minibroker.server.requests.session import Session


_logger: Final = logging.getLogger(__name__)

_LONGEST_MS: Final = 60_000
"""From the connection to the last token. Kafka bounds it only by `connections.max.idle.ms`, which is ten minutes."""
_BETWEEN_REAUTHENTICATIONS_MS: Final = 1000
_LONGEST_TOKEN: Final = 65_536
"""Bytes, of which a mechanism reads the costliest in 10 ms. Kafka bounds a token only as it bounds its request."""
_MOST_REFUSED: Final = 2
"""A client asks for ApiVersions once more, in a version that the broker serves. Kafka answers without an end."""


class _State(Enum):
    START = auto()  # ApiVersions or SaslHandshake
    HANDSHAKE = auto()  # SaslHandshake
    TOKENS = auto()  # SaslAuthenticate
    BARE_TOKENS = auto()  # no requests at all
    WRONG_MECHANISM = auto()  # another one than the session began with: the next request ends it
    DONE = auto()
    FAILED = auto()


class IllegalSaslStateError(UnservedRequestError):
    """A request that may not come now; the connection closes."""


class SessionExpiredError(UnservedRequestError):
    """The client should have authenticated again; the connection closes."""


class Authentication:
    """Of one connection; an interceptor, and `Session.authentication`.

    Args:
        channel: the connection.
        on_done: is called when the client may send requests of any size.

    Attributes:
        by_token: the client has shown a delegation token.
    """

    def __init__(
        self, security: ListenerSecurity, session: Session, channel: Channel, on_done: Callable[[], None]
    ) -> None:
        self._security = security
        self._session = session
        self._channel = channel
        self._on_done = on_done
        self._clock = session.services.core.clock
        self._state = _State.START
        self._exchange: SaslServer | None = None
        self._mechanism = ""  # of the session, once there is one
        self._refused = 0  # requests of ApiVersions
        self._expires_ms: float | None = None  # on the even clock
        self._began_again_ms: float | None = None
        self.by_token = False
        self._timer: Timer | None = self._clock.call_later(_LONGEST_MS, self._give_up)

    @property
    def takes_tokens(self) -> bool:
        """Whether the next frame is a bare token, without a header."""
        return self._state is _State.BARE_TOKENS

    def is_early(self, error: Exception) -> bool:
        """Is a request refused for its having come before the client has begun to say who it is?"""
        began = self._mechanism or self._state not in {_State.START, _State.HANDSHAKE}
        return isinstance(error, IllegalSaslStateError) and not began

    def close(self) -> None:
        """The connection has gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def before(self, take: Take) -> Take:
        """Return a `Take` that serves logins, and has `take` serve all that comes after them."""
        return partial(self._accept, take)

    def _accept(self, take: Take, frame: memoryview, session: Session) -> Outcome:
        """The result of `take(frame, session)`, if such a request may come now.

        IllegalSaslStateError and SessionExpiredError, for which the connection is to close, and the errors of `take`.
        """
        # After SaslHandshake v0 frames hold the mechanism's own bytes: they have no API key to look at.
        if self._state is _State.BARE_TOKENS:
            return self._bare_token(bytes(frame))
        key = int.from_bytes(frame[:2], "big", signed=True)
        if self._state is _State.DONE:
            # KIP-368: a session with a limit; most have none, and pay for one comparison.
            if self._expires_ms is not None:
                self._watch(key, self._expires_ms)
        elif self._state is _State.TOKENS:
            if key != ApiKey.SASL_AUTHENTICATE:
                raise IllegalSaslStateError(f"{_name(key)} came during SASL authentication")
        elif not self._may_begin(key):
            raise IllegalSaslStateError(f"{_name(key)} came before SASL authentication")
        outcome = take(frame, session)
        if key == ApiKey.API_VERSIONS and self._state is _State.START:
            if _has_responded(outcome):
                self._state = _State.HANDSHAKE
            else:
                self._refused += 1
        return outcome

    def _may_begin(self, key: int) -> bool:
        # ApiVersions may come once before the handshake (KIP-35), and again if its version was unknown.
        if self._state is _State.START:
            return key == ApiKey.SASL_HANDSHAKE or (key == ApiKey.API_VERSIONS and self._refused < _MOST_REFUSED)
        return self._state is _State.HANDSHAKE and key == ApiKey.SASL_HANDSHAKE

    def _watch(self, key: int, expires_ms: float) -> None:
        """Begin again if the client asks for it, and end a session that is over."""
        now_ms = self._clock.monotonic_ms()
        if key == ApiKey.SASL_HANDSHAKE and (
            # `KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS`: a client could else have the broker hash passwords
            # all day.
            self._began_again_ms is None or now_ms - self._began_again_ms >= _BETWEEN_REAUTHENTICATIONS_MS
        ):
            self._began_again_ms = now_ms
            self._state = _State.HANDSHAKE
        elif now_ms > expires_ms:
            raise SessionExpiredError("the session has expired, and the client did not authenticate again")

    # What the handlers ask

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse | DelayedResponse:
        """Answer SaslHandshake."""
        mechanisms = self._security.mechanisms
        if self._state is _State.DONE:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
        if request.mechanism not in mechanisms:
            return self._fail(
                f"the mechanism {request.mechanism!r} is not enabled, but {', '.join(mechanisms)}",
                SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms),
            )
        # KIP-368 forbids another mechanism on a session. Kafka says so only when the token comes.
        if self._mechanism and request.mechanism != self._mechanism:
            self._state = _State.WRONG_MECHANISM
        else:
            self._exchange = self._security.start(request.mechanism)
            self._state = _State.TOKENS if version else _State.BARE_TOKENS
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=mechanisms)

    def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse | DelayedResponse:
        """Answer SaslAuthenticate."""
        exchange = self._exchange
        if exchange is None or self._state is not _State.TOKENS:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
                auth_bytes=b"",
            )
        try:
            token = _evaluate(exchange, bytes(request.auth_bytes))
            lifetime_ms = self._complete(exchange) if exchange.is_complete else 0
        except SaslError as error:
            return self._fail(str(error), _refusal(self._error_message(error, exchange.mechanism)))
        return SaslAuthenticateResponse(
            error_code=ErrorCode.NONE, error_message="", auth_bytes=token, session_lifetime_ms=lifetime_ms
        )

    def _error_message(self, error: SaslError, mechanism: str) -> str:
        """The error message for the client: it does not show which users exist."""
        if isinstance(error, SaslAuthenticationError):
            return str(error)
        phase = "re-authentication" if self._mechanism else "authentication"
        return f"Authentication failed during {phase} due to invalid credentials with SASL mechanism {mechanism}"

    def _complete(self, exchange: SaslServer) -> int:
        """The client is known from now on; how long, in milliseconds, or 0 for ever. SaslAuthenticationError."""
        principal = Principal(USER, exchange.user or "")
        before = self._session.principal
        # Requests in flight were authorized for the first principal.
        if self._mechanism and principal != before:
            raise SaslAuthenticationError(
                f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
                f"{principal.type}.{principal.name}"
            )
        limits = [self._security.max_reauth_ms(exchange.mechanism)]
        if exchange.expires_ms is not None:
            limits.append(max(0, exchange.expires_ms - self._clock.now_ms()))
        # The broker's limit or the token's end, whichever is earlier
        # (`SaslServerAuthenticator.calcCompletionTimesAndReturnSessionLifetimeMs`).
        lifetime_ms = min(limits if limits[0] > 0 else limits[1:], default=None)
        self._expires_ms = None if lifetime_ms is None else self._clock.monotonic_ms() + lifetime_ms
        self._session.principal = principal
        self._mechanism, self._exchange = exchange.mechanism, None
        self.by_token = exchange.is_token
        self._state = _State.DONE
        self.close()
        self._on_done()
        return lifetime_ms or 0

    # Clients that have not got so far

    def _bare_token(self, token: bytes) -> Waiting:
        """Take a token after SaslHandshake v0: it has no headers, and is answered in the same way."""
        exchange = self._exchange
        assert exchange is not None
        delayed: DelayedResponse
        try:
            answer = _evaluate(exchange, token)
            if exchange.is_complete:
                self._complete(exchange)
        except SaslError as error:
            delayed = self._fail(str(error), None)
        else:
            origin = self._session.origin
            delayed = _BareAnswer(self._channel, answer, None if origin is None else origin.request)
            # A raw token must not overtake answers of the same wake-up that are still to be encoded.
            self._session.services.core.call_soon(delayed.go)
        return Waiting(delayed, NO_ANSWER)

    def _fail(self, reason: str, response: Any) -> DelayedResponse:
        """Answer late, and close."""
        kind = FAILED_LOGINS.format("no mechanism" if self._exchange is None else self._exchange.mechanism)
        message = f"{self._session.client_host} failed to authenticate: {one_line(reason)}"
        self._session.services.core.advised.advise(kind, message, message)
        self._state = _State.FAILED
        self._exchange = None
        self.close()
        refusal = _Refusal(self._channel, response)
        # `connection.failed.authentication.delay.ms` (KIP-306): guessing passwords takes time.
        refusal.timer = self._clock.call_later(self._security.failure_delay_ms, refusal.go)
        return refusal

    def _give_up(self) -> None:
        self._timer = None
        _logger.info("%s did not authenticate within %d ms", self._session.client_host, _LONGEST_MS)
        self._channel.abort()  # it may have left answers unread, which would be waited for


class _Refusal(DelayedResponse):
    """A failure that the client learns of later; None where no response can carry it."""

    timer: Timer

    def __init__(self, channel: Channel, response: Any) -> None:
        self._channel = channel
        self._response = response

    def go(self) -> None:
        if self._response is not None:
            self.deliver(self._response)
        self._channel.end()

    def cancel(self) -> None:
        self.timer.cancel()

    def waits_for(self) -> str:
        return "the delay after a login that has failed"


class _BareAnswer(DelayedResponse):
    """A token that leaves without a header, once what was answered before has left."""

    def __init__(self, channel: Channel, token: bytes, recorded: Any) -> None:
        self._channel: Channel | None = channel
        self._token = token
        self._recorded = recorded  # the token in the recording, if there is one

    def go(self) -> None:
        channel = self._channel
        if channel is not None:
            data = bytearray(len(self._token).to_bytes(4, "big") + self._token)
            if self._recorded is not None:
                self._recorded.sent(data)
            channel.send(data, [])
            channel.release()

    def cancel(self) -> None:
        self._channel = None

    def waits_for(self) -> str:
        return "the answers before it to leave"


def _evaluate(exchange: SaslServer, token: bytes) -> bytes:
    if len(token) > _LONGEST_TOKEN:
        raise SaslError(f"a token of {len(token)} bytes is too long: {_LONGEST_TOKEN} are the most")
    return exchange.evaluate(token)


def _refusal(message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message, auth_bytes=b""
    )


def _has_responded(outcome: Outcome) -> bool:
    """Has the client got the table, or will it? One that asked in an unknown version may ask again."""
    return not isinstance(outcome, Answer) or outcome.response.error_code == ErrorCode.NONE


def _name(key: int) -> str:
    try:
        return ApiKey(key).name
    except ValueError:
        return f"a request of the unknown kind {key}"
