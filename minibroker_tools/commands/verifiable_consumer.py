"""kafka-verifiable-consumer: what a member of a group is assigned, reads and commits, as lines of JSON."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.membership import Consumer
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.client.reader import Received
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.commands.common import ending_with_sigterm
from minibroker_tools.commands.verifiable_events import connection_of, print_event
from minibroker_tools.failures import ApiError, ToolError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import err

_POLL_S: Final = 0.5
_RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


def options(tool: str) -> Options:
    """The options of kafka-verifiable-consumer."""
    known = Options(
        tool, "This tool consumes messages from a specific topic and emits consumer events as JSON objects."
    )
    known.value("topic", help="REQUIRED: consume this topic")
    known.value("group-id", help="REQUIRED: the group")
    known.value("bootstrap-server", help="REQUIRED: the brokers to connect to", metavar="SERVERS")
    known.value("broker-list", help="the older name of --bootstrap-server", metavar="SERVERS")
    known.value("group-instance-id", help="the id of a static member")
    known.value("max-messages", help="end after this many records; without it at a signal", type=int)
    known.value("session-timeout", help="has no effect: it is 45000 ms", type=int)
    known.flag("verbose", help="print each record, too")
    known.flag("enable-autocommit", help="commit from time to time, not after each poll")
    known.value("reset-policy", help="earliest (the default), latest or none")
    known.value("assignment-strategy", help=f"{_RANGE}; others are not supported", metavar="CLASS")
    known.value("group-protocol", help="classic; consumer is not supported")
    known.value("group-remote-assignor", help="not supported")
    known.value("consumer.config", help="a file with properties of the consumer", metavar="FILE")
    known.value("command-config", help="the same, as in Kafka 4", metavar="FILE")
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Consume until the limit or a signal. ToolError for an option that cannot be served."""
    values = known.parse(arguments)
    values.require("topic", "group-id")
    servers, path = connection_of(values, "consumer.config")
    for name, served in (("assignment-strategy", _RANGE), ("group-protocol", "classic"), ("group-remote-assignor", "")):
        if (values.text(name) or served).lower() != served.lower():
            raise ToolError(f"--{name} {values.text(name)} is not supported" + (f"; {served} is" if served else ""))
    if values.has("session-timeout"):
        err("Warning: --session-timeout has no effect: it is 45000 ms")
    properties = {
        **load_properties(path),
        "group.id": values.text("group-id") or "",
        "auto.offset.reset": values.text("reset-policy") or "earliest",
        "enable.auto.commit": "true",
    }
    if values.has("group-instance-id"):
        properties["group.instance.id"] = values.text("group-instance-id") or ""
    with Cluster(Settings(servers, properties)) as cluster, ending_with_sigterm():
        print_event("startup_complete")
        consumer = Consumer(cluster, values.text("topic"), {values.text("topic")}.__contains__, properties)
        try:
            with suppress(KeyboardInterrupt):
                _consume(consumer, values)
            print_event("partitions_revoked", partitions=_shown(sorted(consumer.reader.positions)))
        finally:
            consumer.close()
        print_event("shutdown_complete")
    return 0


def _consume(consumer: Consumer, values: Values) -> None:
    assigned: list[TopicPartition] | None = None
    left = values.number("max-messages", -1)
    while left:
        received = consumer.poll(_POLL_S)
        partitions = sorted(consumer.reader.positions)
        if partitions != assigned:
            if assigned is not None:
                print_event("partitions_revoked", partitions=_shown(assigned))
            print_event("partitions_assigned", partitions=_shown(partitions))
            assigned = partitions
        received = received[:left] if left > 0 else received
        left -= len(received) if left > 0 else 0
        if received:
            _take(consumer, received, verbose=values.has("verbose"))
            if not values.has("enable-autocommit"):
                _commit(consumer)


def _take(consumer: Consumer, received: Sequence[Received], *, verbose: bool) -> None:
    offsets: dict[TopicPartition, list[int]] = {}
    for topic, partition, record in received:
        if verbose:
            key, value = (each and bytes(each).decode(errors="replace") for each in (record.key, record.value))
            place = {"topic": topic, "partition": partition, "offset": record.offset}
            print_event("record_data", key=key, value=value, **place)
        offsets.setdefault((topic, partition), []).append(record.offset)
        consumer.taken[topic, partition] = record.offset + 1
    summaries = [
        {**place, "count": len(found), "minOffset": found[0], "maxOffset": found[-1]}
        for place, found in zip(_shown(offsets), offsets.values(), strict=True)
    ]
    print_event("records_consumed", count=len(received), partitions=summaries)


def _commit(consumer: Consumer) -> None:
    taken: Mapping[TopicPartition, int] = dict(consumer.taken)
    outcome: dict[str, object] = {"success": True}
    try:
        consumer.commit()
    except ApiError as error:
        outcome = {"error": error.message, "success": False}
    places = [{**place, "offset": offset} for place, offset in zip(_shown(taken), taken.values(), strict=True)]
    print_event("offsets_committed", offsets=places, **outcome)


def _shown(partitions: Collection[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
