"""Records: written without a producer, read without a consumer, and waited for."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query

from minibroker.control.models import (
    Expectation,
    Matching,
    NewRecords,
    Place,
    Places,
    Record,
    RecordList,
    RecordWait,
)
from minibroker.control.page_models import RecordPart
from minibroker.control.remote import OnBroker
from minibroker.control.routes import calls
from minibroker.control.waiting_models import Absence
from minibroker.operations.matching import ANY, RecordMatcher, record
from minibroker.operations.payloads import Form, headers_of, payload_of
from minibroker.operations.producing import Message
from minibroker.operations.records import Isolation, read_page

router = APIRouter(tags=["Records"])

_RECORDS: Final = 10_000
_MOST_RECORDS: Final = 100_000
_PAGE_BYTES: Final = 16 << 20

Format = Annotated[
    Form,
    Query(
        alias="format",
        description=(
            'How bytes are shown. `text`: as a text if they are UTF-8, else as `{"base64": ...}`; `base64`: always so; '
            "`json`: as the JSON that they are, else as `text`."
        ),
    ),
]


@router.post("/topics/{topic}/records", openapi_extra=calls("produce"))
async def produce(topic: str, new: NewRecords, on_broker: OnBroker) -> Places:
    """Append records without a client. A topic that there is not is created, as a client would have it."""
    messages = [
        Message(
            payload_of(each.value, "value"),
            payload_of(each.key, "key"),
            headers_of(each.headers),
            each.timestamp,
            each.partition,
        )
        for each in new.records
    ]
    places = await on_broker(
        lambda broker: broker.produce(topic, *messages, message_format=new.message_format, codec=new.codec)
    )
    return Places(records=[Place.model_validate(each) for each in places])


@router.get("/topics/{topic}/records", openapi_extra=calls("records"))
async def read_records(
    topic: str,
    on_broker: OnBroker,
    partition: Annotated[int | None, Query(description="Only this one.")] = None,
    start: Annotated[int, Query(description="The offset to begin at.")] = 0,
    isolation: Isolation = "read_committed",
    limit: Annotated[int, Query(ge=1, le=_MOST_RECORDS, description="At most so many.")] = _RECORDS,
    form: Format = "text",
) -> RecordPart:
    """What consumers can read in a topic: some of it, which is at most 16 MiB of keys and values.

    `next_offsets` tells where to go on: ask for each of its partitions with its offset as `start`.
    """
    found, next_offsets = await on_broker(
        lambda broker: read_page(
            broker.services,
            topic,
            partition=partition,
            start=start,
            isolation=isolation,
            limit=limit,
            max_bytes=_PAGE_BYTES,
        )
    )
    return RecordPart.part_of(found, form, next_offsets)


@router.post("/topics/{topic}/records/wait", openapi_extra=calls("wait_for"))
async def wait_for_records(topic: str, wanted: RecordWait, on_broker: OnBroker, form: Format = "text") -> RecordList:
    """Wait until a topic has so many committed records, and return all there are."""
    matching = None if wanted.matching is None else _matcher(wanted.matching)
    found = await on_broker(
        lambda broker: broker.wait_for(topic, wanted.count, matching=matching, timeout=wanted.timeout)
    )
    return RecordList.of(found, form)


@router.post("/topics/{topic}/records/expect", openapi_extra=calls("expect"))
async def expect(topic: str, wanted: Expectation, on_broker: OnBroker, form: Format = "text") -> Record:
    """Wait for a record like this and return it; when none comes, `message` compares with what is there."""
    found = await on_broker(
        lambda broker: broker.expect(
            topic,
            _expected(wanted, "value"),
            key=_expected(wanted, "key"),
            headers=_headers(wanted.headers),
            partition=wanted.partition,
            timeout=wanted.timeout,
        )
    )
    return Record.of(found, form)


@router.post("/topics/{topic}/records/expect-none", status_code=204, openapi_extra=calls("expect_none"))
async def expect_none(topic: str, on_broker: OnBroker, ruled_out: Absence | None = None) -> None:
    """Hold that no record like this is in a topic, which need not exist. 409, `unexpected`, with those that are."""
    given = ruled_out or Absence()
    await on_broker(
        lambda broker: broker.expect_none(
            topic,
            _expected(given, "value"),
            key=_expected(given, "key"),
            headers=_headers(given.headers),
            partition=given.partition,
            within=given.within,
        )
    )


def _matcher(wanted: Matching) -> RecordMatcher:
    return record(
        _expected(wanted, "value"),
        key=_expected(wanted, "key"),
        headers=_headers(wanted.headers),
        partition=wanted.partition,
        offset=wanted.offset,
        timestamp=wanted.timestamp,
    )


def _expected(wanted: Matching | Expectation | Absence, name: str) -> Any:
    """A key or value; null is null, but what is not said may be anything."""
    return payload_of(getattr(wanted, name), name) if name in wanted.model_fields_set else ANY


def _headers(wanted: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if wanted is None else {name: payload_of(value, f"header {name!r}") for name, value in wanted.items()}
