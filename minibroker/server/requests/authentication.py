"""The SASL authentication of a connection, before its first request and again when its session expires.

The states, and the requests accepted in each, are those of Kafka's `SaslServerAuthenticator` (KIP-43, KIP-152,
KIP-368): at most one ApiVersions, SaslHandshake, then tokens, which are sent in SaslAuthenticate requests, or
bare after SaslHandshake v0. Any other request closes the connection. A client that fails to authenticate gets
the error after `connection.failed.authentication.delay.ms`, and then the connection closes.
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from minibroker.cluster.advice import FAILED_LOGINS
from minibroker.cluster.routing.outcomes import NO_ANSWER, Answer, DelayedResponse, Waiting
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.security.principals import USER, Principal, escape_for_log
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
    from minibroker.cluster.routing.outcomes import Channel, FrameHandler, Outcome
    from minibroker.security.listener_security import ListenerSecurity
    from minibroker.server.requests.session import Session


_logger: Final = logging.getLogger(__name__)

_MAX_AUTHENTICATION_MS: Final = 60_000
"""The maximum time until the last token. In Kafka, only `connections.max.idle.ms` limits it, to ten minutes."""
_MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1000
_MAX_TOKEN_BYTES: Final = 65_536
"""The maximum size of a token. The slowest mechanism reads it in 10 ms. Kafka limits only the whole request."""
_MAX_REFUSED: Final = 2
"""The maximum number of rejected ApiVersions requests. Clients repeat the request once. Kafka sets no limit."""


class _State(Enum):
    START = auto()  # Accepts ApiVersions or SaslHandshake.
    HANDSHAKE = auto()  # Accepts SaslHandshake.
    TOKENS = auto()  # Accepts SaslAuthenticate.
    BARE_TOKENS = auto()  # Accepts tokens without a request header.
    WRONG_MECHANISM = auto()  # Re-authentication named another mechanism, so the next request fails.
    DONE = auto()
    FAILED = auto()


class IllegalSaslStateError(UnservedRequestError):
    """A request that is not allowed in the current SASL state. The connection is closed."""


class SessionExpiredError(UnservedRequestError):
    """The session expired before the client authenticated again. The connection is closed."""


class Authentication:
    """The authentication of one connection: an interceptor that is also kept as `Session.authentication`.

    Args:
        security: The security settings of the listener.
        session: The session of the connection.
        channel: The connection.
        on_done: Called when the client is authenticated and may send requests of any size.

    Attributes:
        by_token: Whether the client authenticated with a delegation token.
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
        self._mechanism = ""  # The mechanism with which the session was authenticated, or an empty string.
        self._refused = 0  # The number of rejected ApiVersions requests.
        self._expires_ms: float | None = None  # The end of the session on the monotonic clock, or None without a limit.
        self._reauthenticated_ms: float | None = None
        self.by_token = False
        self._timer: Timer | None = self._clock.call_later(_MAX_AUTHENTICATION_MS, self._give_up)

    @property
    def takes_tokens(self) -> bool:
        """Whether the next frame is a bare token without a request header."""
        return self._state is _State.BARE_TOKENS

    def is_early(self, error: Exception) -> bool:
        """Return whether a request failed because the client sent it before starting authentication."""
        has_begun = self._mechanism or self._state not in {_State.START, _State.HANDSHAKE}
        return isinstance(error, IllegalSaslStateError) and not has_begun

    def close(self) -> None:
        """Cancel the timer because the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def accept(self, take: FrameHandler, frame: memoryview, session: Session) -> Outcome:
        """Handle a bare token, or return the result of `take(frame, session)` if such a request is allowed now.

        Errors raised by `take` are passed on.

        Raises:
            IllegalSaslStateError: The request is not allowed now. The connection must be closed.
            SessionExpiredError: The session has expired. The connection must be closed.
        """
        # After SaslHandshake v0 frames contain bare tokens, without an API key.
        if self._state is _State.BARE_TOKENS:
            return self._bare_token(bytes(frame))
        key = int.from_bytes(frame[:2], "big", signed=True)
        if self._state is _State.DONE:
            # Only sessions with a time limit (KIP-368) are checked. For others, this comparison is the only cost.
            if self._expires_ms is not None:
                self._check_session(key, self._expires_ms)
        elif self._state is _State.TOKENS:
            if key != ApiKey.SASL_AUTHENTICATE:
                raise IllegalSaslStateError(f"{_format_api(key)} came during SASL authentication")
        elif not self._may_begin(key):
            raise IllegalSaslStateError(f"{_format_api(key)} came before SASL authentication")
        outcome = take(frame, session)
        if key == ApiKey.API_VERSIONS and self._state is _State.START:
            # A client whose version is unknown did not get the table of API versions, so it may send another request.
            if isinstance(outcome, Answer) and outcome.response.error_code != ErrorCode.NONE:
                self._refused += 1
            else:
                self._state = _State.HANDSHAKE
        return outcome

    def _may_begin(self, key: int) -> bool:
        # Before the handshake, ApiVersions is allowed once (KIP-35), and again if the version was unsupported.
        if self._state is _State.START:
            return key == ApiKey.SASL_HANDSHAKE or (key == ApiKey.API_VERSIONS and self._refused < _MAX_REFUSED)
        return self._state is _State.HANDSHAKE and key == ApiKey.SASL_HANDSHAKE

    def _check_session(self, key: int, expires_ms: float) -> None:
        """Start re-authentication if the client requests it, and end an expired session."""
        now_ms = self._clock.monotonic_ms()
        if key == ApiKey.SASL_HANDSHAKE and (
            # Without this interval (`KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS`) a client could keep the broker
            # busy with hashing passwords.
            self._reauthenticated_ms is None or now_ms - self._reauthenticated_ms >= _MIN_REAUTHENTICATION_INTERVAL_MS
        ):
            self._reauthenticated_ms = now_ms
            self._state = _State.HANDSHAKE
        elif now_ms > expires_ms:
            raise SessionExpiredError("the session has expired, and the client did not authenticate again")

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse | DelayedResponse:
        """Handle SaslHandshake."""
        mechanisms = self._security.mechanisms
        if self._state is _State.DONE:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
        if request.mechanism not in mechanisms:
            return self._fail(
                f"the mechanism {request.mechanism!r} is not enabled, but {', '.join(mechanisms)}",
                SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms),
            )
        # KIP-368 forbids a change of mechanism. Like Kafka, report it only when the token arrives.
        if self._mechanism and request.mechanism != self._mechanism:
            self._state = _State.WRONG_MECHANISM
        else:
            self._exchange = self._security.start(request.mechanism)
            self._state = _State.TOKENS if version else _State.BARE_TOKENS
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=mechanisms)

    def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse | DelayedResponse:
        """Handle SaslAuthenticate."""
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
            message, code = self._error_message(error, exchange.mechanism), ErrorCode.SASL_AUTHENTICATION_FAILED
            response = SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")
            return self._fail(str(error), response)
        return SaslAuthenticateResponse(
            error_code=ErrorCode.NONE, error_message="", auth_bytes=token, session_lifetime_ms=lifetime_ms
        )

    def _error_message(self, error: SaslError, mechanism: str) -> str:
        """Return an error message for the client that does not reveal which users exist."""
        if isinstance(error, SaslAuthenticationError):
            return str(error)
        phase = "re-authentication" if self._mechanism else "authentication"
        return f"Authentication failed during {phase} due to invalid credentials with SASL mechanism {mechanism}"

    def _complete(self, exchange: SaslServer) -> int:
        """Complete the authentication, and return the lifetime of the session in milliseconds, or 0 if it is unlimited.

        Raises:
            SaslAuthenticationError: A re-authentication changed the principal.
        """
        principal = Principal(USER, exchange.user or "")
        before = self._session.principal
        # The principal must not change, because pending requests were authorized for the first one.
        if self._mechanism and principal != before:
            raise SaslAuthenticationError(
                f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
                f"{principal.type}.{principal.name}"
            )
        limits = [self._security.max_reauth_ms(exchange.mechanism)]
        if exchange.expires_ms is not None:
            limits.append(max(0, exchange.expires_ms - self._clock.now_ms()))
        # Use the earlier of the broker's limit and the token's expiration
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

    def _bare_token(self, token: bytes) -> Waiting:
        """Handle a token after SaslHandshake v0. Neither the token nor its response has a header."""
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
            # A bare token must not overtake responses of the same wake-up that are not encoded yet.
            self._session.services.core.call_soon(delayed.go)
        return Waiting(delayed, NO_ANSWER)

    def _fail(self, reason: str, response: Any) -> DelayedResponse:
        """Return a delayed response that reports the failure and closes the connection."""
        kind = FAILED_LOGINS.format("no mechanism" if self._exchange is None else self._exchange.mechanism)
        message = f"{self._session.client_host} failed to authenticate: {escape_for_log(reason)}"
        self._session.services.core.advice.advise(kind, message, message)
        self._state = _State.FAILED
        self._exchange = None
        self.close()
        refusal = _Refusal(self._channel, response)
        # The delay (KIP-306) slows down password guessing.
        refusal.timer = self._clock.call_later(self._security.failure_delay_ms, refusal.go)
        return refusal

    def _give_up(self) -> None:
        self._timer = None
        _logger.info("%s did not authenticate within %d ms", self._session.client_host, _MAX_AUTHENTICATION_MS)
        self._channel.abort()  # `end` would wait for responses that the client has not read.


class _Refusal(DelayedResponse):
    """A failure that is reported to the client with a delay. Without a response, the connection is only closed."""

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
    """A token without a header, sent after all earlier responses."""

    def __init__(self, channel: Channel, token: bytes, recorded: Any) -> None:
        self._channel: Channel | None = channel
        self._token = token
        self._recorded = recorded  # The recorded token, or None without a recording.

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
    if len(token) > _MAX_TOKEN_BYTES:
        raise SaslError(f"a token of {len(token)} bytes is too long: {_MAX_TOKEN_BYTES} are the most")
    return exchange.evaluate(token)


def _format_api(key: int) -> str:
    try:
        return ApiKey(key).name
    except ValueError:
        return f"a request of the unknown kind {key}"
