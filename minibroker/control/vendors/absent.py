"""Ports whose service is not there, such as Redpanda's schema registry: each question is answered so."""

from http import HTTPStatus
from typing import TYPE_CHECKING

from minibroker.control.vendors.answers import Answer, Question, refusal

if TYPE_CHECKING:
    from minibroker.server.services import Services


def answer(_services: "Services", _question: Question) -> Answer:
    """404 with the reason."""
    return refusal(HTTPStatus.NOT_FOUND, "minibroker has no schema registry and no HTTP proxy; this port is only open")
