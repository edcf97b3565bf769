"""kafka-verifiable-producer: numbers as records, and each acknowledgement as a line of JSON, for tests of systems."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.producer import Outgoing, Producer
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.commands.common import ending_with_sigterm
from minibroker_tools.commands.verifiable_events import connection_of, print_event
from minibroker_tools.failures import ApiError, ToolError
from minibroker_tools.options import Options, Values

_ACKS: Final = ("-1", "0", "1", "all")


def options(tool: str) -> Options:
    """The options of kafka-verifiable-producer."""
    known = Options(
        tool, "This tool produces increasing integers to the specified topic and prints JSON metadata to stdout."
    )
    known.value("topic", help="REQUIRED: produce to this topic")
    known.value("bootstrap-server", help="REQUIRED: the brokers to connect to", metavar="SERVERS")
    known.value("broker-list", help="the older name of --bootstrap-server", metavar="SERVERS")
    known.value("max-messages", help="produce this many records; without it until a signal", type=int)
    known.value("throughput", help="records a second; -1 for no limit", type=int)
    known.value("acks", help="-1, 0, 1 or all")
    known.value("producer.config", help="a file with properties of the producer", metavar="FILE")
    known.value("command-config", help="the same, as in Kafka 4", metavar="FILE")
    known.value("message-create-time", help="not supported: records have the time at which they are sent", type=int)
    known.value("value-prefix", help="a number and a dot before each value", type=int)
    known.value("repeating-keys", help="have keys from 0 to N - 1, again and again", type=int, metavar="N")
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Produce until the limit or a signal. ToolError for an option that cannot be served."""
    values = known.parse(arguments)
    values.require("topic")
    servers, path = connection_of(values, "producer.config")
    if values.number("message-create-time", -1) != -1:
        raise ToolError("--message-create-time is not supported: records have the time at which they are sent")
    properties = load_properties(path)
    acks = values.text("acks") or "-1"
    if acks not in _ACKS:
        raise ToolError(f"--acks {acks}: it is none of {', '.join(_ACKS)}")
    began = time.monotonic()
    run = _Run(values)
    with Cluster(Settings(servers, properties)) as cluster, ending_with_sigterm():
        print_event("startup_complete")
        producer = Producer(cluster, run.topic, run.refused, acks=acks, placed=run.placed)
        with suppress(KeyboardInterrupt):
            run.produce(producer)
        print_event("shutdown_complete")
    rate = run.acked / max(time.monotonic() - began, 0.001)
    print_event("tool_data", sent=run.sent, acked=run.acked, target_throughput=run.throughput, avg_throughput=rate)
    return 0


class _Run:
    """One run, and what was sent in it."""

    def __init__(self, values: Values) -> None:
        self.topic = values.text("topic") or ""
        self.throughput = values.number("throughput", -1)
        self.sent = self.acked = 0
        self._limit = values.number("max-messages", -1)
        self._prefix = f"{values.get('value-prefix')}." if values.has("value-prefix") else ""
        self._keys: int | None = values.get("repeating-keys")
        self._record: dict[str, Any] = {}

    def produce(self, producer: Producer) -> None:
        """Send the records one by one."""
        began = time.monotonic()
        while self._limit < 0 or self.sent < self._limit:
            key = None if self._keys is None else str(self.sent % self._keys)
            value = f"{self._prefix}{self.sent}"
            self._record = {"key": key, "value": value, "topic": self.topic}
            self.sent += 1
            producer.send([Outgoing(None if key is None else key.encode(), value.encode())])
            if self.throughput > 0:
                time.sleep(max(0.0, began + self.sent / self.throughput - time.monotonic()))

    def placed(self, partition: int, offset: int, _time_ms: int) -> None:
        """Print that the record was acknowledged."""
        self.acked += 1
        print_event("producer_send_success", **self._record, partition=partition, offset=offset)

    def refused(self, _records: Sequence[Outgoing], error: ApiError) -> None:
        """Print that the record was refused."""
        name, _, message = error.described.partition(": ")
        print_event("producer_send_error", **self._record, exception=f"class {name}", message=message)
