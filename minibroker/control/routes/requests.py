"""The journal of requests: whether one is kept, and what is in it."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from minibroker.cluster.errors import ConflictError, OperationError
from minibroker.cluster.routing.slices import Steps
from minibroker.control.models import About, Body, Count, Timeout, list_answer
from minibroker.control.remote import OnBroker
from minibroker.control.routes import calls
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.views.slicing import in_slices
from minibroker.operations.wording import Int16, Int64, UInt64
from minibroker.server.inspection.journal import Entry, Journal, error_code
from minibroker.server.inspection.recording import drop_journal, journal_of, keep_journal


class JournalSize(Body):
    """The number of entries that a journal keeps."""

    capacity: int = Field(default=10_000, ge=1, le=1_000_000, description="The newest so many requests are kept.")


class JournalInfo(About):
    """The journal."""

    is_kept: bool
    count: UInt64 = Field(description="The number of requests since it was begun.")


class JournalEntry(About):
    """One request and its answer."""

    number: UInt64
    time: Int64 = Field(description="When it came: ms since the epoch on the broker's clock.")
    connection: str = Field(description="Both ends, the broker's first.")
    node: int = Field(description="The id of the broker that was asked.")
    client_host: str
    client_id: str | None
    api: str
    version: Int16
    correlation_id: int
    request: Any = Field(description="With Kafka's own field names; of records only sizes and counts.")
    response: Any = Field(description="The same; null while there is none.")
    errors: list[str] = Field(description="The errors in the response, by name.")
    duration_ms: float | None
    bytes_in: UInt64
    bytes_out: UInt64
    fault: Any = Field(description="The fields of the fault that has hit it; null for none.")
    failure: str | None = Field(description="Why the connection was closed over it.")


class JournalEntries(About):
    """Requests of clients and their responses, oldest first."""

    count: UInt64 = Field(description="The number of requests, also of those that do not fit or are kept no longer.")
    requests: list[JournalEntry]


class RequestWait(Body):
    """Which requests are waited for. Names may have the wildcards * and ?."""

    count: Count = 1
    api: str | None = None
    client_id: str | None = None
    topic: str | None = None
    group: str | None = None
    error: str | int | None = Field(default=None, description="The name or number of an error in the answer.")
    timeout: Timeout = 10.0


router = APIRouter(tags=["Requests"])

_NEWEST = 1000
_MOST = 10_000
_Pattern = Annotated[str | None, Query(description="A name, in which * and ? are wildcards.")]


def entry_json(entry: Entry) -> dict[str, Any]:
    """A `JournalEntry`, whose own fields are named as in Python. On the broker's thread."""
    return {_snake_case(name): value for name, value in entry.to_json().items()}


@router.get("/journal", openapi_extra=calls("requests"))
async def read_journal(on_broker: OnBroker) -> JournalInfo:
    """Is a journal kept?"""
    return await on_broker.get(_info)


@router.put("/journal", openapi_extra=calls("requests"))
async def begin_journal(on_broker: OnBroker, size: JournalSize | None = None) -> JournalInfo:
    """Keep a journal from now on; an old one goes. It copies every request, which clients may notice."""

    def work(broker: AsyncOperations) -> JournalInfo:
        keep_journal(broker.services, (size or JournalSize()).capacity)
        return _info(broker)

    return await on_broker.get(work)


@router.delete("/journal", status_code=204, openapi_extra=calls("requests"))
async def end_journal(on_broker: OnBroker) -> None:
    """Keep no journal any more."""
    await on_broker.get(lambda broker: drop_journal(broker.services))


@router.get("/requests", response_model=JournalEntries, openapi_extra=calls("requests"))
async def list_requests(
    on_broker: OnBroker,
    api: Annotated[str | None, Query(description="`Produce`, `PRODUCE`, `*Group*`.")] = None,
    client_id: _Pattern = None,
    topic: _Pattern = None,
    group: _Pattern = None,
    error: Annotated[str | None, Query(description="The name or number of an error in the answer.")] = None,
    after: Annotated[int, Query(description="Leaves out those up to this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST, description="The newest so many of those that fit.")] = _NEWEST,
) -> Response:
    """Requests of clients and their responses that match all that is given. 409 unless a journal is kept."""
    filters: dict[str, Any] = {"api": api, "client_id": client_id, "topic": topic, "group": group}

    async def work(broker: AsyncOperations) -> Response:
        journal = _journal(broker)
        steps = _fitting(journal, journal.find(**filters, error=_error(error), after=after), limit)
        return await in_slices(broker.services, steps)

    return await on_broker(work)


@router.delete("/requests", status_code=204, openapi_extra=calls("requests"))
async def forget_requests(on_broker: OnBroker) -> None:
    """Forget the requests up to now; numbers go on."""
    await on_broker.get(lambda broker: _journal(broker).clear())


@router.post("/requests/wait", response_model=JournalEntries, openapi_extra=calls("wait_for_requests"))
async def wait_for_requests(wait: RequestWait, on_broker: OnBroker) -> Response:
    """Wait for so many requests that fit all that is given, and return all there are."""

    async def work(broker: AsyncOperations) -> Response:
        journal = _journal(broker)
        found = await broker.wait_for_requests(
            wait.count,
            api=wait.api,
            client_id=wait.client_id,
            topic=wait.topic,
            group=wait.group,
            error=_error(wait.error),
            timeout=wait.timeout,
        )
        return await in_slices(broker.services, _entries(journal, found))

    return await on_broker(work)


def _fitting(journal: Journal, found: Steps[list[Entry]], limit: int) -> Steps[Response]:
    """The newest entries of those that are found."""
    return (yield from _entries(journal, (yield from found)[-limit:]))


def _entries(journal: Journal, entries: list[Entry]) -> Steps[Response]:
    """`JournalEntries` as an answer. Each entry is encoded in its step, and its objects are gone after it."""
    requests: list[bytes] = []
    for each in entries:
        requests.append(JournalEntry.model_validate(entry_json(each)).model_dump_json().encode())
        yield
    return list_answer(JournalEntries(count=journal.count, requests=[]), "requests", requests)


def _journal(broker: AsyncOperations) -> Journal:
    if journal_of(broker.services) is None:
        raise ConflictError("the broker keeps no journal of requests; PUT /journal, or serve --journal, begins one")
    return broker.requests


def _info(broker: AsyncOperations) -> JournalInfo:
    journal = journal_of(broker.services)
    return JournalInfo(is_kept=journal is not None, count=0 if journal is None else journal.count)


def _error(error: str | int | None) -> str | int | None:
    """By name or number. `OperationError` for one that Kafka does not have."""
    if error is None:
        return None
    found = int(error) if isinstance(error, str) and error.lstrip("-").isdecimal() else error
    try:
        return error_code(found).name
    except ValueError as unknown:
        raise OperationError(str(unknown)) from None


def _snake_case(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
