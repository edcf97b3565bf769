"""Errors as returned to HTTP clients: a status and `{"error": ..., "message": ...}`."""

import json
from typing import TYPE_CHECKING, Any, Final, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from minibroker.cluster import errors
from minibroker.cluster.cluster import ClusterError
from minibroker.operations.overview import overview
from minibroker.server.faults.fault import FaultError

if TYPE_CHECKING:
    from minibroker_control.remote import Remote

_REPORTED_REQUESTS: Final = 20


class Problem(BaseModel):
    """The reason why a request failed."""

    error: str = Field(description="A word for programs: `bad_request`, `not_found`, `conflict`, `timeout`, ...")
    message: str = Field(description="A sentence for people.")


class UnavailableError(Exception):
    """The broker is stopping or has stopped."""


_WORDS: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    500: "internal",
    503: "unavailable",
}


def problem_response(
    status: int, message: str, word: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    """Return an error response with the fields of `Problem` as JSON."""
    # json.dumps returns ASCII, so any message can be encoded.
    body = json.dumps({"error": word or _WORDS.get(status, "error"), "message": message})
    return Response(body, status, headers=headers, media_type="application/json")


def handle_errors(app: FastAPI) -> None:
    """Register handlers with `app` that turn the broker's exceptions, and the app's own, into problem responses."""
    app.add_exception_handler(RequestValidationError, _respond_to_invalid)
    app.add_exception_handler(HTTPException, _respond_to_http_error)
    kind: type[Exception]
    for kind, status, word, message in (
        (errors.NotFoundError, 404, None, "{}"),
        (errors.ConflictError, 409, None, "{}"),
        (errors.OperationError, 400, None, "{}"),
        (FaultError, 400, None, "{}"),
        (ClusterError, 409, None, "{}"),
        (UnavailableError, 503, None, "the broker is not running"),
        (UnicodeEncodeError, 400, None, "the text is not valid Unicode: {0.reason}"),
        (RecursionError, 400, None, "the body is nested too deeply"),
        (OSError, 500, "storage", "{}"),
        (Exception, 500, None, "{0.__class__.__name__}: {0}"),
    ):
        app.add_exception_handler(kind, _problem_handler(status, word, message))
    app.add_exception_handler(errors.FailedExpectationError, _respond_to_failed_expectation)


def _problem_handler(status: int, word: str | None, message: str) -> Any:
    async def handle(_: Request, error: Exception) -> Response:
        return problem_response(status, message.format(error), word)

    return handle


async def _respond_to_failed_expectation(request: Request, error: Exception) -> Response:
    """Return the error followed by the broker's content and newest requests, as in the report of a failed test."""
    remote: Remote = request.app.state.remote
    report = await remote(lambda broker: overview(broker.services, _REPORTED_REQUESTS))
    # A timeout is not reported as 408, because some clients repeat such a request automatically.
    word = "timeout" if isinstance(error, errors.WaitTimeoutError) else "unexpected"
    return problem_response(409, f"{error}\n{report}", word)


async def _respond_to_invalid(_: Request, error: Exception) -> Response:
    complaints = cast("RequestValidationError", error).errors()
    return problem_response(400, "; ".join(map(_format_complaint, complaints)))


def _format_complaint(complaint: dict[str, Any]) -> str:
    # Leave out the first element, which is "body", "query" or "path".
    location = ".".join(map(str, complaint["loc"][1:]))
    message = complaint.get("ctx", {}).get("error", "") if complaint["type"] == "json_invalid" else complaint["msg"]
    if complaint["type"] == "json_invalid":
        return f"the body is not valid JSON: {message} at character {location}"
    value = complaint.get("input")
    if isinstance(value, bytes):
        return "the body: JSON is needed, with the header Content-Type: application/json"
    if complaint["type"] == "unknown_field":
        unknown = complaint["ctx"]
        return f"{'.'.join(filter(None, (location, unknown['field'])))}: there is no such field{unknown['hint']}"
    value_text = "" if isinstance(value, dict | list) or complaint["type"] == "missing" else f", not {value!r}"
    return f"{location or 'body'}: {message}{value_text}"


async def _respond_to_http_error(request: Request, error: Exception) -> Response:
    http_error = cast("HTTPException", error)
    message = str(http_error.detail)
    if http_error.status_code in {404, 405}:
        message = f"there is no {request.method} {request.url.path}; GET /openapi.json lists all paths"
    return problem_response(http_error.status_code, message, headers=dict(http_error.headers or {}))
