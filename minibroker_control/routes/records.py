"""Routes that write records without a producer, read them without a consumer, and wait for them."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import Field, Strict
from starlette.responses import Response

from minibroker.cluster.errors import collect_warnings
from minibroker.operations import producing
from minibroker.operations.matching import ANY, RecordMatcher, record
from minibroker.operations.producing import Form, Message, convert_to_json, headers_of, json_of, payload_of
from minibroker.operations.records import ConsumerRecord, Isolation, read_page
from minibroker.operations.schemas import decode_records
from minibroker.operations.wording import Int64
from minibroker_control.models import (
    WITH_WARNINGS,
    Body,
    Count,
    Payload,
    ResponseBody,
    Timeout,
    WithWarnings,
    describes,
    done,
    list_response,
    warnings_field,
)
from minibroker_control.remote import OnBroker, Remote
from minibroker_control.routes import calls

ReadPayload = Annotated[Any, Field(description="Shown according to `format`.")]


_MAX_NEW_RECORDS: Final = 20_000
"""The limit on records in a request. More records would delay Kafka's clients by more than 200 ms."""

Within = Annotated[float, Field(ge=0, le=600, allow_inf_nan=False, description="Seconds to keep checking.")]


_Pair = Annotated[tuple[str, Payload], Strict(strict=False)]
"""A pair, which is a list in JSON."""


class NewRecord(Body):
    """A record to write."""

    value: Payload = None
    key: Payload = None
    headers: dict[str, Payload] | list[_Pair] = Field(
        default={}, description="An object, or a list of [name, value] if the order matters or names repeat."
    )
    timestamp: Int64 | None = Field(
        default=None, description="Milliseconds since the epoch, or null for the broker's time."
    )
    partition: int | None = Field(default=None, description="Null to choose it by the key, or in turn without a key.")


class NewRecords(Body):
    """Records to write, in order."""

    records: list[NewRecord] = Field(max_length=_MAX_NEW_RECORDS)
    message_format: Literal["v2", "v1", "v0"] = Field(
        default="v2", description="v0 and v1 are the formats before Kafka 0.10 and 0.11."
    )
    codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    # `BaseModel` has an attribute `schema`.
    value_schema: str | None = Field(
        default=None, alias="schema", description="A subject whose latest schema encodes the values, which are JSON."
    )
    key_schema: str | None = Field(default=None, description="The same for the keys.")


@describes(producing.RecordMetadata)
class RecordMetadata(ResponseBody):
    """The partition and the offset of a new record."""


class ProducedRecords(WithWarnings):
    """The appended records, in order."""

    records: list[RecordMetadata]


class Header(ResponseBody):
    """A header of a record."""

    name: str
    value: ReadPayload


@describes(ConsumerRecord)
class Record(ResponseBody):
    """A record as a consumer receives it, with details of its storage."""

    key: ReadPayload
    value: ReadPayload
    headers: list[Header]


class RecordList(ResponseBody):
    """Records of a topic, ordered by partition."""

    records: list[Record]


class _Conditions(Body):
    value: Payload = None
    key: Payload = None
    headers: dict[str, Payload] | None = None
    partition: int | None = None

    def split(self) -> tuple[Any, dict[str, Any]]:
        """Return the expected value, and the other conditions by name.

        An omitted value or key matches anything. A null value or key matches only null.
        """
        value, key = (
            ANY if name not in self.model_fields_set else sent if isinstance(sent, str) else payload_of(sent, name)
            for name, sent in (("value", self.value), ("key", self.key))
        )
        headers = self.headers and {name: payload_of(value, f"header {name!r}") for name, value in self.headers.items()}
        return value, {"key": key, "headers": headers, "partition": self.partition}


class Expectation(_Conditions):
    """The expected record. An omitted field matches anything. JSON objects are compared by the given members only."""

    headers: dict[str, Payload] | None = Field(default=None, description="Headers that the record must have.")
    timeout: Timeout = 10.0


class Matching(_Conditions):
    """The conditions of `expect`, with an offset and a timestamp."""

    offset: Int64 | None = None
    timestamp: Int64 | None = None


class RecordWait(Body):
    """The number of records to wait for."""

    count: Count = 1
    matching: Matching | None = Field(default=None, description="Counts and returns only matching records.")
    timeout: Timeout = 10.0


class RecordPart(RecordList):
    """Some records of a topic, ordered by partition."""

    next_offsets: dict[int, Int64] = Field(description="The next `start` by partition, or empty after the last record.")


class Absence(_Conditions):
    """The record that must not exist. An omitted field matches anything."""

    headers: dict[str, Payload] | None = Field(default=None, description="Headers that a matching record has.")
    within: Within = 0.0


router = APIRouter(tags=["Records"])

_RECORDS: Final = 10_000
_MAX_RECORDS: Final = 100_000
_PAGE_BYTES: Final = 16 << 20
_RECORDS_PER_STEP: Final = 50
"""The number of records encoded before other threads can run, which takes less than a millisecond."""

Format = Annotated[
    Form,
    Query(
        alias="format",
        description=(
            'How bytes are shown. `text`: as a text if they are UTF-8, otherwise as `{"base64": ...}`. `base64`: '
            'always as `{"base64": ...}`. `json`: a key or value with the id of a schema is decoded; other bytes are '
            "shown as JSON if they are valid JSON, otherwise as with `text`. What cannot be decoded is "
            '`{"base64": ..., "reason": ...}`.'
        ),
    ),
]


@router.post("/topics/{topic}/records", response_model_exclude_unset=True, openapi_extra=calls("produce"))
async def produce(topic: str, new: NewRecords, on_broker: OnBroker) -> ProducedRecords:
    """Append records without a client. A missing topic is created, as for a client."""
    messages = [
        Message(
            json_of(new_record.value) if new.value_schema else payload_of(new_record.value, "value"),
            json_of(new_record.key) if new.key_schema else payload_of(new_record.key, "key"),
            headers_of(new_record.headers),
            new_record.timestamp,
            new_record.partition,
        )
        for new_record in new.records
    ]
    how: Any = {name: getattr(new, name) for name in ("message_format", "codec", "key_schema")}
    with collect_warnings() as warnings:
        places = await on_broker(lambda broker: broker.produce(topic, *messages, schema=new.value_schema, **how))
    return ProducedRecords.model_validate({"records": places, **warnings_field(warnings)})


@router.get("/topics/{topic}/records", response_model=RecordPart, openapi_extra=calls("records"))
async def read_records(
    topic: str,
    on_broker: OnBroker,
    partition: Annotated[int | None, Query(description="Read only this partition.")] = None,
    start: Annotated[int, Query(description="The first offset to read.")] = 0,
    isolation: Isolation = "read_committed",
    limit: Annotated[int, Query(ge=1, le=_MAX_RECORDS, description="The maximum number of records.")] = _RECORDS,
    form: Format = "text",
) -> Response:
    """Return some records of a topic as consumers read them, with at most 16 MiB of keys and values.

    To continue, request each partition of `next_offsets` with its offset as `start`.
    """
    page, next_offsets = await on_broker(
        lambda broker: read_page(broker.services, topic, partition, start, isolation, limit, _PAGE_BYTES)
    )
    return await _list_records(on_broker, RecordPart(records=[], next_offsets=next_offsets), page, form)


@router.post("/topics/{topic}/records/wait", response_model=RecordList, openapi_extra=calls("wait_for"))
async def wait_for_records(topic: str, wait: RecordWait, on_broker: OnBroker, form: Format = "text") -> Response:
    """Wait until a topic has the given number of committed records, and return all its committed records."""
    matching = None if wait.matching is None else _make_matcher(wait.matching)
    read = await on_broker(lambda broker: broker.wait_for(topic, wait.count, matching=matching, timeout=wait.timeout))
    return await _list_records(on_broker, RecordList(records=[]), read, form)


@router.post("/topics/{topic}/records/expect", openapi_extra=calls("expect"))
async def expect(topic: str, expectation: Expectation, on_broker: OnBroker, form: Format = "text") -> Record:
    """Wait for a matching record and return it. On a timeout, `message` compares the expected and existing records."""
    value, conditions = expectation.split()
    match = await on_broker(lambda broker: broker.expect(topic, value, **conditions, timeout=expectation.timeout))
    (shown,) = await _decode(on_broker, [match], form)
    return _format_record(shown, form)


@router.post(
    "/topics/{topic}/records/expect-none", status_code=204, responses=WITH_WARNINGS, openapi_extra=calls("expect_none")
)
async def expect_none(topic: str, on_broker: OnBroker, ruled_out: Absence | None = None) -> Response:
    """Check that a topic has no matching record. The topic need not exist.

    Returns 409 with the error `unexpected` and the matching records if there are any.

    Returns 200 with a warning if the topic does not exist but a topic with a similar name does.
    """
    absent = ruled_out or Absence()
    value, conditions = absent.split()
    with collect_warnings() as warnings:
        await on_broker(lambda broker: broker.expect_none(topic, value, **conditions, within=absent.within))
    return done(warnings)


def _format_record(record: ConsumerRecord, form: Form) -> Record:
    """Return a record with its bytes in one of the forms."""
    values = {name: getattr(record, name) for name in Record.model_fields}
    values["key"], values["value"] = convert_to_json(record.key, form), convert_to_json(record.value, form)
    values["headers"] = [{"name": name, "value": convert_to_json(value, form)} for name, value in record.headers]
    return Record.model_validate(values)


async def _decode(on_broker: Remote, records: Sequence[ConsumerRecord], form: Form) -> Sequence[ConsumerRecord]:
    """Return the records, decoded for the form "json"."""
    return await on_broker(lambda broker: decode_records(broker.services, records)) if form == "json" else records


async def _list_records(
    on_broker: Remote, about: RecordList, records: Sequence[ConsumerRecord], form: Form
) -> Response:
    """Return a response that lists the records, with their bytes in the given form.

    Yields to other tasks while the records are encoded.
    """
    shown_records: list[bytes] = []
    for number, consumer_record in enumerate(await _decode(on_broker, records, form), 1):
        shown_records.append(_format_record(consumer_record, form).model_dump_json().encode())
        if not number % _RECORDS_PER_STEP:
            await asyncio.sleep(0)
    return list_response(about, "records", shown_records)


def _make_matcher(matching: Matching) -> RecordMatcher:
    value, conditions = matching.split()
    return record(value, **conditions, offset=matching.offset, timestamp=matching.timestamp)
