"""Clients' requests: their numbers, rows and bytes, and a stream of new rows."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query
from starlette.responses import StreamingResponse

from minibroker.cluster.errors import NotFoundError, OperationError
from minibroker.server.inspection.exchanges import Kind
from minibroker_lab.page.detail import exchange_json, version_json
from minibroker_lab.page.recorder import Recorder
from minibroker_lab.page.routes import OnRecorder, OnSchemas
from minibroker_lab.page.rows import WAITING, Filter
from minibroker_lab.reading import name_of

router = APIRouter(prefix="/requests")

_MAX_ROWS: Final = 500
_MAX_NEWEST: Final = 100
_SLICE: Final = 100
_GATHER_S: Final = 0.1
"""The interval, in seconds, whose changes are combined into one event of the stream."""
_FLOOD_S: Final = 0.4
"""The same interval under load. Nobody can read that many rows, and making them costs more than the requests."""
_BREATH_S: Final = 15.0
"""The longest silence on a stream, in seconds. Clients can mistake a stream for dead if it is silent for longer."""


Api = Annotated[str, Query(description="The name of an API; all without one.")]
Words = Annotated[str, Query(description="Words that stand in the row.")]
Errors = Annotated[bool, Query(description="Only rows with an error.")]


@router.get("")
async def list_requests(
    recorder: OnRecorder, api: Api = "", q: Words = "", *, errors: Errors = False
) -> dict[str, Any]:
    """Return the numbers of the requests that match the filter.

    Without a filter, return only the first and the last number, because all numbers between them match.
    """
    row_filter = Filter(api, tuple(q.lower().split()), errors)
    recorder.catch_up()
    return {**_state(recorder), "numbers": None if row_filter.accepts_all else await _numbers(recorder, row_filter)}


@router.get("/rows")
async def rows(
    recorder: OnRecorder, first: Annotated[int, Query(ge=0)], last: Annotated[int, Query(ge=0)]
) -> dict[str, Any]:
    """Return the rows from `first` to `last`, inclusive, at most 500.

    Rows that are no longer recorded are left out.
    """
    numbers = range(max(first, recorder.first), min(last, recorder.last, first + _MAX_ROWS - 1) + 1)
    exchanges = [exchange for number in numbers if (exchange := recorder.known(number)) is not None]
    return {"rows": [recorder.rows.row(exchange)._asdict() for exchange in exchanges]}


@router.get("/apis")
async def apis(recorder: OnRecorder) -> dict[str, Any]:
    """Return the names of the APIs that clients have used."""
    recorder.catch_up()
    return {"apis": sorted(map(name_of, recorder.rows.api_keys))}


@router.get("/live")
async def live(recorder: OnRecorder, api: Api = "", q: Words = "", *, errors: Errors = False) -> StreamingResponse:
    """Stream new and changed rows as server-sent events."""
    events = _stream_events(recorder, Filter(api, tuple(q.lower().split()), errors))
    return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.get("/{number}")
async def one(recorder: OnRecorder, schemas: OnSchemas, number: Annotated[int, Path(ge=1)]) -> dict[str, Any]:
    """Return one request and its response as bytes and fields."""
    exchange = recorder.find(number)
    if exchange is None:
        state = "it is no longer kept" if number < recorder.first else "no client has sent so many"
        raise NotFoundError(f"request {number}: {state}")
    if schemas is not None:
        await schemas.update()
    return {**_state(recorder), **exchange_json(recorder.rows, exchange, schemas)}


@router.get("/{number}/versions/{version}")
async def in_version(
    recorder: OnRecorder, number: Annotated[int, Path(ge=1)], version: Annotated[int, Path(ge=0)]
) -> dict[str, Any]:
    """Return the request and its response in another version of the API."""
    exchange = recorder.find(number)
    if exchange is None:
        raise NotFoundError(f"request {number}: it is not kept")
    if exchange.kind is not Kind.REQUEST:
        raise OperationError(f"request {number}: it is an event, not a request, so it has no versions")
    return version_json(exchange, version)


def _state(recorder: Recorder) -> dict[str, Any]:
    return {"first": recorder.first, "last": recorder.last}


async def _numbers(recorder: Recorder, row_filter: Filter) -> list[int]:
    return [
        exchange.number
        async for exchange in recorder.in_slices(recorder.first, recorder.last)
        if row_filter.can_match(exchange) and row_filter.matches(recorder.rows.row(exchange))
    ]


async def _stream_events(recorder: Recorder, row_filter: Filter) -> AsyncIterator[str]:
    with recorder.subscribed() as subscription:
        yield _format_event(recorder, [])
        waiting: set[int] = set()  # The numbers of the rows that were sent before their response arrived.
        while not recorder.is_over:
            numbers = await subscription.next(_BREATH_S)
            if not numbers:
                yield ":\n\n"
                continue
            is_flood = len(numbers) > _MAX_NEWEST
            if row_filter.accepts_all and is_flood:
                # Send only the newest rows, and resend rows that were first sent without their response. Views request
                # the other rows they show.
                numbers = [*waiting.intersection(numbers[:-_MAX_NEWEST]), *numbers[-_MAX_NEWEST:]]
            rows: list[dict[str, Any]] = []
            for count, number in enumerate(numbers):
                exchange = recorder.known(number)
                waiting.discard(number)
                if exchange is None or not row_filter.can_match(exchange):
                    continue
                row = recorder.rows.row(exchange)
                if row_filter.matches(row):
                    rows.append(row._asdict())
                    if row.state == WAITING:
                        waiting.add(number)
                if count % _SLICE == _SLICE - 1:
                    await asyncio.sleep(0)
            yield _format_event(recorder, rows)
            if len(waiting) > _MAX_ROWS:
                waiting = {number for number in waiting if number >= recorder.first}
            await asyncio.sleep(_FLOOD_S if is_flood else _GATHER_S)


def _format_event(recorder: Recorder, rows: list[dict[str, Any]]) -> str:
    return f"data: {json.dumps({**_state(recorder), 'rows': rows})}\n\n"
