"""kafka-verifiable-producer and kafka-verifiable-consumer: test clients that print events as lines of JSON."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.groups import Consumer
from minibroker_tools.client.offsets import TopicPartition, group_values
from minibroker_tools.client.producer import ACKS, Outgoing, Producer
from minibroker_tools.client.reader import Received
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.commands.common import raise_interrupt_on_sigterm
from minibroker_tools.failures import ApiError, ToolError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import compact_json, flush, write_error_line, write_line

_PRODUCER: Final = "kafka-verifiable-producer"
_RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


def declare_options(tool: str) -> Options:
    """Declare the options of the producer or the consumer."""
    options = _producer_options(tool) if tool == _PRODUCER else _consumer_options(tool)
    options.value("bootstrap-server", "broker-list", help="REQUIRED: the brokers to connect to", metavar="SERVERS")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Produce numbers, or consume records, until the limit is reached or a signal arrives.

    Raises:
        ToolError: An option is not supported.
    """
    values = options.parse(arguments)
    return _run_producer(values) if options.tool == _PRODUCER else _run_consumer(values)


def _print_event(name: str, **fields: object) -> None:
    """Print an event as a line of JSON."""
    event = {"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}
    write_line(compact_json(event, ensure_ascii=False))
    flush()


def _producer_options(tool: str) -> Options:
    options = Options(
        tool, "This tool produces increasing integers to the specified topic and prints JSON metadata to stdout."
    )
    options.value("topic", help="REQUIRED: produce to this topic")
    options.value("max-messages", help="produce this many records (default: until a signal)", type=int)
    options.value("throughput", help="records per second; -1 for no limit", type=int)
    options.value("acks", help="-1, 0, 1 or all")
    options.value("producer.config", "command-config", help="a file with properties of the producer", metavar="FILE")
    options.value("message-create-time", help="not supported: records are timestamped when they are sent", type=int)
    options.value("value-prefix", help="prefix each value with this number and a dot", type=int)
    options.value("repeating-keys", help="repeat the keys from 0 to N - 1", type=int, metavar="N")
    return options


def _run_producer(values: Values) -> int:
    values.require("topic", "bootstrap-server")
    if values.number("message-create-time", -1) != -1:
        raise ToolError("--message-create-time is not supported: records have the time at which they are sent")
    properties = load_properties(values.text("producer.config"))
    acks = values.text("acks") or "-1"
    if acks not in ACKS:
        raise ToolError(f"--acks {acks}: it is none of {', '.join(sorted(ACKS))}")
    start_time = time.monotonic()
    run = _ProducerRun(values)
    with Cluster(Settings(values.text("bootstrap-server") or "", properties)) as cluster, raise_interrupt_on_sigterm():
        _print_event("startup_complete")
        producer = Producer(cluster, run.topic, acks=acks)
        with suppress(KeyboardInterrupt):
            run.produce(producer)
        _print_event("shutdown_complete")
    rate = run.acked / max(time.monotonic() - start_time, 0.001)
    _print_event("tool_data", sent=run.sent, acked=run.acked, target_throughput=run.throughput, avg_throughput=rate)
    return 0


class _ProducerRun:
    """The options and the counters of a producer run."""

    def __init__(self, values: Values) -> None:
        self.topic = values.text("topic") or ""
        self.throughput = values.number("throughput", -1)
        self.sent = self.acked = 0
        self._limit = values.number("max-messages", -1)
        self._prefix = f"{values.get('value-prefix')}." if values.has("value-prefix") else ""
        self._keys: int | None = values.get("repeating-keys")

    def produce(self, producer: Producer) -> None:
        """Send the records one by one."""
        start_time = time.monotonic()
        while self._limit < 0 or self.sent < self._limit:
            key = None if self._keys is None else str(self.sent % self._keys)
            value = f"{self._prefix}{self.sent}"
            self.sent += 1
            (sent,) = producer.send([Outgoing(None if key is None else key.encode(), value.encode())])
            record = {"key": key, "value": value, "topic": self.topic}
            if sent.error is None:
                self.acked += 1
                _print_event("producer_send_success", **record, partition=sent.partition, offset=sent.offset)
            else:
                name, _, message = sent.error.described.partition(": ")
                _print_event("producer_send_error", **record, exception=f"class {name}", message=message)
            if self.throughput > 0:
                time.sleep(max(0.0, start_time + self.sent / self.throughput - time.monotonic()))


def _consumer_options(tool: str) -> Options:
    options = Options(
        tool, "This tool consumes messages from a specific topic and emits consumer events as JSON objects."
    )
    options.value("topic", help="REQUIRED: consume this topic")
    options.value("group-id", help="REQUIRED: the group")
    options.value("group-instance-id", help="the id of a static member")
    options.value("max-messages", help="stop after this many records (default: at a signal)", type=int)
    options.value("session-timeout", help="has no effect: the timeout is always 45000 ms", type=int)
    options.flag("verbose", help="also print each record")
    options.flag("enable-autocommit", help="commit periodically instead of after each poll")
    options.value("reset-policy", help="earliest (the default), latest or none")
    options.value("assignment-strategy", help=f"{_RANGE}; others are not supported", metavar="CLASS")
    options.value("group-protocol", help="classic; consumer is not supported")
    options.value("group-remote-assignor", help="not supported")
    options.value("consumer.config", "command-config", help="a file with properties of the consumer", metavar="FILE")
    return options


def _run_consumer(values: Values) -> int:
    values.require("topic", "group-id", "bootstrap-server")
    for name, served in (("assignment-strategy", _RANGE), ("group-protocol", "classic"), ("group-remote-assignor", "")):
        if (values.text(name) or served).lower() != served.lower():
            raise ToolError(f"--{name} {values.text(name)} is not supported" + (f"; {served} is" if served else ""))
    if values.has("session-timeout"):
        write_error_line("Warning: --session-timeout has no effect: it is 45000 ms")
    properties = {
        **load_properties(values.text("consumer.config")),
        "group.id": values.text("group-id") or "",
        "auto.offset.reset": values.text("reset-policy") or "earliest",
        "enable.auto.commit": "true",
    }
    if values.has("group-instance-id"):
        properties["group.instance.id"] = values.text("group-instance-id") or ""
    with Cluster(Settings(values.text("bootstrap-server") or "", properties)) as cluster, raise_interrupt_on_sigterm():
        _print_event("startup_complete")
        consumer = Consumer(cluster, values.text("topic"), {values.text("topic")}.__contains__, properties)
        try:
            with suppress(KeyboardInterrupt):
                _consume_records(consumer, values)
            _print_event("partitions_revoked", partitions=_partition_fields(sorted(consumer.reader.positions)))
        finally:
            consumer.close()
        _print_event("shutdown_complete")
    return 0


def _consume_records(consumer: Consumer, values: Values) -> None:
    assigned: list[TopicPartition] | None = None
    remaining = values.number("max-messages", -1)
    while remaining:
        received = consumer.poll()
        partitions = sorted(consumer.reader.positions)
        if partitions != assigned:
            if assigned is not None:
                _print_event("partitions_revoked", partitions=_partition_fields(assigned))
            _print_event("partitions_assigned", partitions=_partition_fields(partitions))
            assigned = partitions
        received = received[:remaining] if remaining > 0 else received
        remaining -= len(received) if remaining > 0 else 0
        if received:
            _print_records(consumer, received, verbose=values.has("verbose"))
            if not values.has("enable-autocommit"):
                _commit_offsets(consumer)


def _print_records(consumer: Consumer, received: Sequence[Received], *, verbose: bool) -> None:
    for topic, partition, record in received:
        if verbose:
            key, value = (data and bytes(data).decode(errors="replace") for data in (record.key, record.value))
            position = {"topic": topic, "partition": partition, "offset": record.offset}
            _print_event("record_data", key=key, value=value, **position)
        consumer.next_offsets[topic, partition] = record.offset + 1
    offsets = group_values(((topic, partition), record.offset) for topic, partition, record in received)
    summaries = [
        {**fields, "count": len(values), "minOffset": values[0], "maxOffset": values[-1]}
        for fields, values in zip(_partition_fields(offsets), offsets.values(), strict=True)
    ]
    _print_event("records_consumed", count=len(received), partitions=summaries)


def _commit_offsets(consumer: Consumer) -> None:
    committed = [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in consumer.next_offsets.items()
    ]
    outcome: dict[str, object] = {"success": True}
    try:
        consumer.commit()
    except ApiError as error:
        outcome = {"error": error.message, "success": False}
    _print_event("offsets_committed", offsets=committed, **outcome)


def _partition_fields(partitions: Iterable[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
