"""Routes for the journal of requests and its entries."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from minibroker.cluster.errors import ConflictError, OperationError
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.producing import convert_to_json
from minibroker.operations.schemas import decode_entry
from minibroker.operations.waiting import run_in_slices
from minibroker.operations.wording import Int16, Int64, UInt64
from minibroker.server.inspection.journal import Entry, Journal, error_code
from minibroker.server.inspection.recording import journal_of, recording_of
from minibroker.server.services import Services
from minibroker_control.models import Body, Count, ResponseBody, Timeout, list_response
from minibroker_control.remote import OnBroker
from minibroker_control.routes import calls


class JournalSize(Body):
    """The number of entries that a journal keeps."""

    capacity: int = Field(default=10_000, ge=1, le=1_000_000, description="The number of newest requests to keep.")


class JournalInfo(ResponseBody):
    """The state of the journal."""

    is_kept: bool
    count: UInt64 = Field(description="The number of requests since the journal was started.")


class DecodedPair(ResponseBody):
    """A key and a value, shown as with the format `json`."""

    key: Any
    value: Any


class JournalEntry(ResponseBody):
    """One request and its response."""

    number: UInt64
    time: Int64 = Field(description="Arrival by the broker's clock, in ms since the epoch.")
    connection: str = Field(description="Both addresses, the broker's first.")
    node: int = Field(description="The id of the broker that received it.")
    client_host: str
    client_id: str | None
    api: str
    version: Int16
    correlation_id: int
    request: Any = Field(description="The message with Kafka's field names. Records are shown as sizes and counts.")
    response: Any = Field(description="The response in the same form, or null if there is none yet.")
    errors: list[str] = Field(description="The names of the errors in the response.")
    duration_ms: float | None
    bytes_in: UInt64
    bytes_out: UInt64
    fault: Any = Field(description="The fields of the fault that hit the request, or null.")
    chaos: str | None = Field(description="The step of chaos at the request, or null.")
    failure: str | None = Field(description="Why the request closed the connection.")
    records: list[DecodedPair] = Field(
        default=[], description="The records of a small request and its response, decoded, if the broker has schemas."
    )


class JournalEntries(ResponseBody):
    """Client requests and their responses, oldest first."""

    count: UInt64 = Field(description="The number of all requests, including filtered and dropped ones.")
    requests: list[JournalEntry]


class RequestWait(Body):
    """The requests to wait for. Names can have the wildcards * and ?."""

    count: Count = 1
    api: str | None = None
    client_id: str | None = None
    topic: str | None = None
    group: str | None = None
    error: str | int | None = Field(default=None, description="The name or number of an error in the response.")
    timeout: Timeout = 10.0


router = APIRouter(tags=["Requests"])

_NEWEST = 1000
_MAX_LISTED = 10_000
_Pattern = Annotated[str | None, Query(description="A name, with * and ? as wildcards.")]


def entry_json(entry: Entry) -> dict[str, Any]:
    """Return the fields of a `JournalEntry` by their Python names. Runs on the broker's thread."""
    return {_snake_case(name): value for name, value in entry.to_json().items()}


@router.get("/journal", openapi_extra=calls("requests"))
async def read_journal(on_broker: OnBroker) -> JournalInfo:
    """Return whether a journal is kept, and the number of requests since it was started."""
    return await on_broker.get(_describe_journal)


@router.put("/journal", openapi_extra=calls("requests"))
async def begin_journal(on_broker: OnBroker, size: JournalSize | None = None) -> JournalInfo:
    """Start a journal that replaces any existing one. Copying every request can slow clients noticeably."""

    def work(broker: AsyncOperations) -> JournalInfo:
        recording_of(broker.services).keep_journal((size or JournalSize()).capacity)
        return _describe_journal(broker)

    return await on_broker.get(work)


@router.delete("/journal", status_code=204, openapi_extra=calls("requests"))
async def end_journal(on_broker: OnBroker) -> None:
    """Stop keeping a journal."""
    await on_broker.get(lambda broker: recording_of(broker.services).drop_journal())


@router.get("/requests", response_model=JournalEntries, openapi_extra=calls("requests"))
async def list_requests(
    on_broker: OnBroker,
    api: Annotated[str | None, Query(description="`Produce`, `PRODUCE`, `*Group*`.")] = None,
    client_id: _Pattern = None,
    topic: _Pattern = None,
    group: _Pattern = None,
    error: Annotated[str | None, Query(description="The name or number of an error in the response.")] = None,
    after: Annotated[int, Query(description="Skips requests up to this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=_MAX_LISTED, description="The maximum number, newest first.")] = _NEWEST,
) -> Response:
    """List the client requests and responses that match all filters. Returns 409 if no journal is kept."""
    filters: dict[str, Any] = {"api": api, "client_id": client_id, "topic": topic, "group": group}

    async def work(broker: AsyncOperations) -> Response:
        journal = _get_journal(broker)
        entries = await run_in_slices(broker.services, journal.find(**filters, error=_parse_error(error), after=after))
        return await _encode_entries(broker.services, journal, entries[-limit:])

    return await on_broker(work)


@router.delete("/requests", status_code=204, openapi_extra=calls("requests"))
async def forget_requests(on_broker: OnBroker) -> None:
    """Remove all recorded requests. Their numbers are not reused."""
    await on_broker.get(lambda broker: _get_journal(broker).clear())


@router.post("/requests/wait", response_model=JournalEntries, openapi_extra=calls("wait_for_requests"))
async def wait_for_requests(wait: RequestWait, on_broker: OnBroker) -> Response:
    """Wait for the given number of requests that match all filters, and return all matching requests."""

    async def work(broker: AsyncOperations) -> Response:
        journal = _get_journal(broker)
        entries = await broker.wait_for_requests(
            wait.count,
            api=wait.api,
            client_id=wait.client_id,
            topic=wait.topic,
            group=wait.group,
            error=_parse_error(wait.error),
            timeout=wait.timeout,
        )
        return await _encode_entries(broker.services, journal, entries)

    return await on_broker(work)


async def _encode_entries(services: Services, journal: Journal, entries: list[Entry]) -> Response:
    """Return `JournalEntries` as a response. Each entry takes a turn of the event loop, and its objects are freed."""
    requests: list[bytes] = []
    for entry in entries:
        records = [
            {"key": convert_to_json(key, "json"), "value": convert_to_json(value, "json")}
            for key, value in await decode_entry(services, entry)
        ]
        fields = {**entry_json(entry), "records": records}
        requests.append(JournalEntry.model_validate(fields).model_dump_json().encode())
        await asyncio.sleep(0)
    return list_response(JournalEntries(count=journal.count, requests=[]), "requests", requests)


def _get_journal(broker: AsyncOperations) -> Journal:
    if journal_of(broker.services) is None:
        raise ConflictError("the broker keeps no journal of requests; PUT /journal, or serve --journal, begins one")
    return broker.requests


def _describe_journal(broker: AsyncOperations) -> JournalInfo:
    journal = journal_of(broker.services)
    return JournalInfo(is_kept=journal is not None, count=0 if journal is None else journal.count)


def _parse_error(error: str | int | None) -> str | int | None:
    """Return the name of an error given by name or number.

    Raises:
        OperationError: Kafka has no such error.
    """
    if error is None:
        return None
    name_or_number = int(error) if isinstance(error, str) and error.lstrip("-").isdecimal() else error
    try:
        return error_code(name_or_number).name
    except ValueError as unknown:
        raise OperationError(str(unknown)) from None


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
