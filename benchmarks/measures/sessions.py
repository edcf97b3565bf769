"""Fetch sessions (KIP-227): the cost of an idle fetch of 1,000 partitions without a session and in one.

The bytes of one request and its response, with length prefixes, are counted on a raw socket: for Fetch v7 with session
epoch -1 that names all 1,000 (empty) partitions, and for the incremental fetch of a session without changes. Each
request saves 24 B per partition.
"""

from benchmarks.model import Bench, Figure, Measure, Numbers
from benchmarks.wire import CREATE_TOPICS


def _run(bench: Bench) -> Numbers:
    bench.require(CREATE_TOPICS)
    count = bench.scale.session_partitions
    topic = bench.topic(count)
    got = bench.client("raw.session_bytes", topic=topic, partitions=count, count=200)
    return {
        "sessions.saved": got["full_request"] - got["session_request"],
        "sessions.full": got["full_request"] + got["full_response"],
        "sessions.session": got["session_request"] + got["session_response"],
        "sessions.full-cpu": got["full_us"],
        "sessions.session-cpu": got["session_us"],
    }


MEASURES = (
    Measure(
        name="sessions",
        figures=(
            Figure("sessions.full", "idle fetch of 1,000 partitions, no session", "B", decimals=0),
            Figure("sessions.session", "idle fetch of 1,000 partitions, session", "B", decimals=0),
            Figure(
                "sessions.saved",
                "saved by the session in each request",
                "B",
                value=24_000,
                higher_is_better=True,
                decimals=0,
            ),
            Figure("sessions.full-cpu", "idle fetch of 1,000, no session", "CPU us", decimals=0),
            Figure("sessions.session-cpu", "idle fetch of 1,000, session", "CPU us", decimals=0),
        ),
        run=_run,
        when="once",
    ),
)
