"""Write the tables of docs/faults.md: `python -m minibroker.faults.reference docs/faults.md` fills them in.

They stand between two marks; what is around them is written by hand.
"""

import sys
from typing import Final, NamedTuple

from minibroker.support.page_tables import fill

BEGIN: Final = "<!-- Made by `python -m minibroker.faults.reference docs/faults.md`: change the table there. -->"


class Row(NamedTuple):
    """One field of `Fault`."""

    name: str
    kind: str
    meaning: str


MATCH: Final = (
    Row("api", "pattern", "The API: `Produce`, `PRODUCE`, `*Group*`."),
    Row("versions", "range", "The API's versions: `7`, `0-3`, `9+`."),
    Row("node", "integer", "The id of the broker that is asked."),
    Row("client_id", "pattern", "The client id. A client without one has the empty id."),
    Row("topic", "pattern", "A topic that the request names."),
    Row("partition", "integer from 0", "A partition that the request names."),
    Row("group", "pattern", "A group that the request names."),
    Row("transactional_id", "pattern", "A transactional id that the request names."),
)
HOW_OFTEN: Final = (
    Row("nth", "integer from 1", "Only the nth request that matches."),
    Row("after", "integer from 0", "Lets so many requests that match go by first."),
    Row("times", "integer from 1", "At most so often."),
    Row("probability", "number, above 0 and at most 1", "The chance of each request that matches."),
    Row("seed", "integer", "Makes the chances come out alike every time."),
)
WHAT: Final = (
    Row(
        "error",
        "name or number",
        "The request is not served, and its answer is this error, in the place where its API has errors.",
    ),
    Row(
        "drop",
        "`before`, `after`",
        "There is no answer: the request is lost before it was applied, or the answer after. What is behind it on its "
        "connection waits until the client gives up.",
    ),
    Row(
        "disconnect",
        "`before`, `after`",
        "The connection is closed instead of an answer, before the request was applied or after.",
    ),
    Row(
        "black_hole",
        "`true`",
        "The connection stays open, and nothing that comes on it from here on is applied or answered, also when the "
        "fault has been removed.",
    ),
    Row(
        "truncate",
        "integer from 0",
        "So many bytes of the answer are sent, its length field included; then the connection is closed.",
    ),
    Row(
        "corrupt",
        "`records`, `body`, `correlation_id`, `length`",
        "The answer has wrong bytes. `records`: the checksum of each partition's first batch is wrong (Fetch). `body`: "
        "every byte behind the header is inverted. `correlation_id`: it belongs to no request. `length`: it is -1.",
    ),
    Row(
        "stale_metadata",
        "integer from 1",
        "Metadata is answered as it was so many changes ago, or when the fault was added if there were fewer. "
        "Changes between two requests count as one.",
    ),
    Row(
        "delay_ms",
        "number above 0",
        "The answer, or what happens instead, is late by so much. The request is applied at once.",
    ),
    Row(
        "throttle_ms",
        "integer from 1",
        "The answer tells the client to wait so long, and its connection is not served meanwhile.",
    ),
)


def render() -> str:
    """The tables, in Markdown."""
    return "\n".join(
        f"| {title} | Type | Meaning |\n| --- | --- | --- |\n"
        + "".join(f"| `{row.name}` | {row.kind} | {row.meaning} |\n" for row in rows)
        for title, rows in (("Which requests", MATCH), ("How often", HOW_OFTEN), ("What happens", WHAT))
    )


if __name__ == "__main__":
    fill(sys.argv[1], BEGIN, render())
