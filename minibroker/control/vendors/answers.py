"""Questions and answers of an admin API, without their transport."""

from http import HTTPStatus
from typing import Final, NamedTuple

Answer = tuple[int, object]
"""A status and what becomes JSON."""

OK: Final = HTTPStatus.OK
READERS: Final = frozenset({"GET", "HEAD"})


class Question(NamedTuple):
    """A request: its method, its path without a query, its body."""

    method: str
    path: str
    body: bytes = b""


def refusal(status: HTTPStatus, message: str) -> Answer:
    """An error, as Redpanda writes one."""
    return status, {"message": message, "code": int(status)}


def not_found(question: Question) -> Answer:
    """404 for a route that is not served."""
    return refusal(HTTPStatus.NOT_FOUND, f"{question.method} {question.path} is not served by minibroker")
