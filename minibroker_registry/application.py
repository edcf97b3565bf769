"""The registry's HTTP interface as an ASGI application: paths, content types, bodies and errors."""

import base64
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from minibroker_control.web_pages import refusal_of
from minibroker_registry import errors, subjects
from minibroker_registry.errors import RegistryError
from minibroker_registry.registry import Registry
from minibroker_registry.routes import ROUTES, Handler, RawText, Request
from minibroker_registry.schema import InvalidSchemaError, TooMuchWorkError

_logger: Final = logging.getLogger(__name__)
MAX_BODY_BYTES: Final = 2 << 20
"""The largest body that is accepted. Parsing a larger one would hold the GIL and delay Kafka's clients.

A topic takes messages of 1 MiB by default, so a larger schema could not be stored anyway.
"""
_MAX_VALUES: Final = 200_000
"""The most values of a body, counted by commas and brackets, and those in the text of a schema."""
_DEFAULT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_TYPES: Final = (_DEFAULT_TYPE, "application/vnd.schemaregistry+json", "application/json")
_BODY_TYPES: Final = frozenset({*_TYPES, "application/octet-stream"})
_ANY_TYPE: Final = frozenset({"*/*", "application/*"})
_APICURIO: Final = ["apis", "ccompat"]
"""The beginning of the paths at which Apicurio Registry has the interface of Confluent's registry."""
_HEADERS: Final = ((b"Cache-Control", b"no-cache, no-store, must-revalidate"), (b"X-XSS-Protection", b"1; mode=block"))
"""What Confluent's registry says with each answer, in its letters, which some Java clients compare."""
_NO_CONTENT: Final = 204
_UNAUTHORIZED: Final = 401

_Message = MutableMapping[str, Any]
_ApplyFaults = Callable[[str], Awaitable[None]]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class Application:
    """An ASGI application that serves a registry.

    Args:
        registry: The registry.
        token: What requests must be authorized with, or None. It is a bearer token, or USER:PASSWORD for Basic.
        own_host: The listening host if only programs of this machine may use the registry, or else None. Web pages of
            other hosts are refused in any case.
        apply_faults: Called with each request, such as `GET /subjects`. It may wait, or raise RegistryError.
    """

    def __init__(
        self, registry: Registry, token: str | None, own_host: str | None, apply_faults: _ApplyFaults | None = None
    ) -> None:
        self._apply_faults = apply_faults
        self._registry = registry
        self._own_host = own_host
        secret = (token or "").encode()
        self._credentials = () if token is None else (b"Bearer " + secret, b"Basic " + base64.b64encode(secret))

    async def __call__(self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer a request."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        media_type = _accepted_type(headers.get("accept", "")) or _DEFAULT_TYPE
        status, body, challenge = 200, b"", False
        try:
            self._check_access(headers)
            content = await _read_body(receive)
            if self._apply_faults is not None:
                await self._apply_faults(f"{scope['method']} {scope['path']}")
            answer = self._answer(scope, headers, content)
            if answer is None:
                status = _NO_CONTENT
            else:
                body = (answer if isinstance(answer, RawText) else _to_json(answer)).encode()
        except RegistryError as error:
            status, challenge = error.status, error.status == _UNAUTHORIZED
            body = _to_json({"error_code": error.code, "message": error.message}).encode()
        except Exception as error:
            _logger.exception("the registry cannot answer %s %s", scope["method"], scope["path"])
            status = 500
            body = _to_json({"error_code": 50001, "message": str(error)}).encode(errors="replace")
        answered = [
            *_HEADERS,
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        if scope["method"] == "OPTIONS":
            answered.append((b"allow", body))
        if challenge:
            answered.append((b"www-authenticate", b'Basic realm="schema registry"'))
        await send({"type": "http.response.start", "status": status, "headers": answered})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _check_access(self, headers: Mapping[str, str]) -> None:
        reason = refusal_of(headers.get, self._own_host)
        if reason is not None:
            raise RegistryError(403, reason)
        given = headers.get("authorization", "").encode("latin-1")
        if self._credentials and not any(hmac.compare_digest(given, valid) for valid in self._credentials):
            raise RegistryError(_UNAUTHORIZED, "Unauthorized")

    def _answer(self, scope: Mapping[str, Any], headers: Mapping[str, str], body: bytes) -> object:
        """Return the answer of an endpoint.

        Raises:
            RegistryError: there is no such endpoint, or it refuses the request.
        """
        if _accepted_type(headers.get("accept", "")) is None:
            raise errors.refusal(406)
        method: str = scope["method"]
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        segments = _split_path(scope["raw_path"])
        if segments[:2] == _APICURIO and segments[3:]:
            segments = segments[3:]  # The third segment is the version, such as v7.
        context = None
        if segments[0] == "contexts" and segments[2:]:
            context, segments = subjects.join(subjects.context_name(segments[1]), ""), segments[2:]
        handler, path = _find_handler("GET" if method == "HEAD" else method, segments)
        value: object = None
        if method in {"POST", "PUT"} and segments != [""]:
            if headers.get("content-type", _DEFAULT_TYPE).partition(";")[0].strip().lower() not in _BODY_TYPES:
                raise errors.refusal(415)
            value = _parse_body(body) if body.strip() else None
        is_lenient = headers.get("confluent-accept-unknown-properties", "").lower() == "true"

        try:
            return self._registry.run(
                lambda registry: handler(Request(registry, path, query, value, is_lenient, context))
            )
        except (InvalidSchemaError, TooMuchWorkError) as error:  # A format has refused a schema or a comparison.
            raise errors.RegistryError(errors.INVALID_SCHEMA, f"Invalid schema, details: {error}") from None


async def _read_body(receive: _Receive) -> bytes:
    """Return the body of a request.

    Raises:
        RegistryError: it is too large, or the client closed the connection first.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RegistryError(400, "the connection was closed before the end of the body")
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise errors.refusal(42209)
        if not message.get("more_body"):
            return bytes(body)


def _parse_body(body: bytes) -> object:
    """Return the JSON of a body.

    Raises:
        RegistryError: the body is not JSON, or has too many values.
    """
    if sum(map(body.count, b",[{")) > _MAX_VALUES:
        raise errors.refusal(42209)
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, f"the body is not JSON: {error}") from None
    return value


def _to_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _accepted_type(accept: str) -> str | None:
    """Return the type of the answer, or None if the header Accept names other types only."""
    names = [part.partition(";")[0].strip().lower() for part in (accept or "*/*").split(",")]
    known = (name for name in names if name in {*_TYPES, *_ANY_TYPE})
    return next((name if name in _TYPES else _DEFAULT_TYPE for name in known), None)


def _split_path(raw_path: bytes) -> list[str]:
    """Return the segments of a path, decoded. A slash at the end is ignored."""
    return [unquote(segment) for segment in raw_path.decode("latin-1").removeprefix("/").removesuffix("/").split("/")]


def _find_handler(method: str, segments: Sequence[str]) -> tuple[Handler, Mapping[str, str]]:
    """Return the handler for a path and the parameters in the path.

    Raises:
        RegistryError: the path is unknown, or is not served with this method.
    """
    for route, handlers in ROUTES.items():
        parts = route.split("/")
        pairs = [*zip(parts, segments, strict=False)] if len(parts) == len(segments) else []
        if pairs and all(part == segment or (part[:1] == "{" and segment) for part, segment in pairs):
            if method == "OPTIONS":
                return _list_methods(handlers), {}
            if method not in handlers:
                raise errors.refusal(405)
            return handlers[method], {part[1:-1]: segment for part, segment in pairs if part[:1] == "{"}
    raise errors.refusal(404)


def _list_methods(handlers: Mapping[str, Handler]) -> Handler:
    methods = RawText(", ".join([*(["HEAD"] if "GET" in handlers else []), *handlers, "OPTIONS"]))
    return lambda _: methods
