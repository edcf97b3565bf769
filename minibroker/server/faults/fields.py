"""The fields of a fault, for docs/faults.md and the OpenAPI document of the control plane."""

from typing import Final, NamedTuple


class Row(NamedTuple):
    """One field of `Fault`."""

    name: str
    kind: str
    meaning: str


MATCH: Final = (
    Row(
        "api",
        "pattern",
        "The API: `Produce`, `PRODUCE`, `*Group*`. `registry` or a method with a path: see "
        "[The schema registry](#the-schema-registry).",
    ),
    Row("versions", "range", "The API's versions: `7`, `0-3`, `9+`."),
    Row("node", "integer", "The id of the broker that receives the request."),
    Row("client_id", "pattern", "The client id. A client without an id has the empty text."),
    Row("topic", "pattern", "A topic that the request names."),
    Row("partition", "integer from 0", "A partition that the request names."),
    Row("group", "pattern", "A group that the request names."),
    Row("transactional_id", "pattern", "A transactional id that the request names."),
)
HOW_OFTEN: Final = (
    Row("nth", "integer from 1", "Fires on the nth matching request only."),
    Row("after", "integer from 0", "Skips the first N matching requests."),
    Row("times", "integer from 1", "Fires at most N times."),
    Row("probability", "number, above 0 and at most 1", "The chance to fire on each matching request."),
    Row("seed", "integer", "Makes the random choices and `jitter_ms` repeatable."),
)
WHAT: Final = (
    Row(
        "error",
        "name or number",
        "The broker does not apply the request. The response has this error, where its API has errors.",
    ),
    Row(
        "applied",
        "`true`",
        "With `error`: the broker applies the request, and the response has the error all the same. A request that the "
        "broker refuses anyway keeps its own error.",
    ),
    Row(
        "drop",
        "`before`, `after`",
        "No response. `before`: the broker does not apply the request. `after`: it does, and the response is lost. "
        "Later requests on the connection wait until the client gives up.",
    ),
    Row(
        "disconnect",
        "`before`, `after`",
        "The broker closes the connection instead of responding, before or after it has applied the request.",
    ),
    Row(
        "late",
        "integer from 1",
        "The broker closes the connection at once. It applies the request, with all its checks, after N later requests "
        "that name one of its partitions, groups or transactional ids.",
    ),
    Row(
        "black_hole",
        "`true`",
        "The connection stays open, but from now on the broker applies and answers nothing on it, even after you have "
        "removed the fault.",
    ),
    Row(
        "truncate",
        "integer from 0",
        "The broker sends the first N bytes of the response, its length field included, and closes the connection.",
    ),
    Row(
        "corrupt",
        "`records`, `body`, `correlation_id`, `length`",
        "The response has wrong bytes. `records`: the checksum of each partition's first batch is wrong (Fetch). "
        "`body`: every byte after the header is inverted. `correlation_id`: no request has it. `length`: it is -1.",
    ),
    Row(
        "stale_metadata",
        "integer from 1",
        "Metadata responses show the cluster as it was N changes ago, or when you added the fault if there were fewer "
        "changes. Changes between two requests count as one.",
    ),
    Row(
        "fetch_bytes",
        "integer from 0",
        "The response has records of at most this size, but at least one batch (Fetch, ShareFetch). With 0 it has no "
        "records, and comes at once.",
    ),
    Row(
        "delay_ms",
        "number above 0",
        "Delays the response, or what happens instead of it. The broker applies the request at once.",
    ),
    Row("jitter_ms", "number above 0", "Adds a random time up to this to the delay."),
    Row(
        "throttle_ms",
        "integer from 1",
        "The response has this `throttle_time_ms`, and the broker serves nothing on the connection for as long.",
    ),
    Row("bytes_per_second", "integer from 1", "The response arrives at this rate."),
    Row("slice_bytes", "integer from 1", "The response is sent in pieces of at most this size."),
)
