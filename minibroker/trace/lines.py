"""Readings as lines: a list for people, and JSON for programs."""

import json
import time
from functools import lru_cache
from typing import Any, Final

from minibroker.inspection.message_json import to_json
from minibroker.inspection.request_lines import records_of, subjects_of
from minibroker.security.log_text import one_line
from minibroker.trace.exchange import Kind
from minibroker.trace.reading import RawBytes, Reading

HEADING: Final = f"{'time':<12}  {'client':<30}  {'request':<26}  {'about':<36}  {'outcome':<24}  {'ms':>9}  bytes\n"


def line_of(reading: Reading) -> str:
    """The line of the list, with its end: time, client, API and version, subject, outcome, latency, bytes."""
    exchange = reading.exchange
    seconds, milliseconds = divmod(exchange.time_ms, 1000)
    at = f"{_time_of_day(seconds)}.{milliseconds:03}"
    client = f"{reading.client_id} {exchange.client}" if reading.client_id else exchange.client
    api = f"{reading.api} v{exchange.version}" if exchange.kind is Kind.REQUEST else reading.api
    latency = "" if exchange.ended_ms is None else f"{exchange.ended_ms - exchange.began_ms:.1f}"
    sizes = f"{exchange.bytes_in}/{exchange.bytes_out}"
    about, outcome = about_of(reading), outcome_of(reading)
    return one_line(f"{at:<12}  {client:<30}  {api:<26}  {about:<36}  {outcome:<24}  {latency:>9}  {sizes}") + "\n"


@lru_cache(maxsize=10)
def _time_of_day(seconds: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def about_of(reading: Reading) -> str:
    """The subject of a request: topics, groups, records; empty for none."""
    if reading.request is None:
        return ""
    words = [*subjects_of(reading.targets)]
    if records := records_of(reading.request):
        words.append(f"({records})")
    session = getattr(reading.request, "session_id", 0)
    if not words and session:
        words.append(f"fetch session {session}")
    return " ".join(words)


def outcome_of(reading: Reading) -> str:
    """The outcome of a request: errors or "ok", and the records in the response."""
    exchange = reading.exchange
    if exchange.failure is not None:
        return exchange.failure
    if not exchange.bytes_out:
        return "no response"
    if reading.response is None:
        return "bytes"
    parts = [" ".join(reading.errors) or "ok"]
    if records := records_of(reading.response):
        parts.append(records)
    return ", ".join(parts)


def json_of(reading: Reading) -> str:
    """One JSON object and the end of its line; messages are as the journal shows them."""
    exchange = reading.exchange
    shown: dict[str, Any] = {
        "number": exchange.number,
        "time": exchange.time_ms,
        "client": exchange.client,
        "broker": exchange.broker,
        "clientId": reading.client_id,
        "api": reading.api,
        "version": exchange.version,
        "correlationId": exchange.correlation_id,
        "request": to_json(reading.request, exchange.version),
        "response": to_json(reading.response, reading.response_version),
        "errors": list(reading.errors),
        "durationMs": None if exchange.ended_ms is None else round(exchange.ended_ms - exchange.began_ms, 3),
        "bytesIn": exchange.bytes_in,
        "bytesOut": exchange.bytes_out,
        "failure": exchange.failure,
    }
    for name, raw in (("requestBytes", reading.request_bytes), ("responseBytes", reading.response_bytes)):
        if raw is not None:
            shown[name] = _raw_json(raw)
    if exchange.replaced:
        shown["replaced"] = exchange.replaced
    return json.dumps(shown) + "\n"


def _raw_json(raw: RawBytes) -> dict[str, Any]:
    return {"size": raw.size} | ({"hidden": True} if raw.shown is None else {"hex": raw.shown.hex()})
