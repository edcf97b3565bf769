"""The driver of the clients in Python: kafka-python, aiokafka and confluent-kafka; `drivers.py` says what it reads.

The last argument names the client. The folder of an older kafka-python comes before it.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

STALL_S = 5.0
REASSIGNED_S = 10.0


class KafkaPython:
    def __init__(self, request: dict[str, Any]) -> None:
        from tests.clients.kafka_versions import import_kafka  # noqa: PLC0415 - only for this client

        self._consumer = import_kafka(sys.argv[1] if len(sys.argv) > 2 else None).KafkaConsumer(
            bootstrap_servers=request["bootstrap"],
            group_id=request["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._consumer.subscribe(request["topics"])

    def poll(self, timeout_ms: int) -> bool:
        return bool(self._consumer.poll(timeout_ms))

    def commit(self) -> None:
        self._consumer.commit()

    def count(self) -> int:
        return len(self._consumer.assignment())

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    protocol = "classic"

    def __init__(self, request: dict[str, Any]) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415 - only for this client

        self._consumer = Consumer(
            {
                "bootstrap.servers": request["bootstrap"],
                "group.id": request["group"],
                "group.protocol": self.protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._count = 0
        # assignment() waits for librdkafka's main thread. No other thread may do so while this one polls.
        self._consumer.subscribe(
            request["topics"],
            on_assign=lambda _, partitions: self._add(len(partitions)),
            on_revoke=lambda _, partitions: self._add(-len(partitions)),
        )

    def _add(self, partitions: int) -> None:
        self._count += partitions

    def poll(self, timeout_ms: int) -> bool:
        message = self._consumer.poll(timeout_ms / 1000)
        return message is not None and message.error() is None

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def count(self) -> int:
        return self._count

    def close(self) -> None:
        self._consumer.close()


class ConfluentConsumer(Confluent):
    protocol = "consumer"


class Aiokafka:
    """A consumer with its own event loop, which runs only during a method call."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start(request))

    async def _start(self, request: dict[str, Any]) -> None:
        from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped] # noqa: PLC0415 - no types; for it only

        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=request["bootstrap"],
            group_id=request["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._consumer.subscribe(request["topics"])
        await self._consumer.start()

    def poll(self, timeout_ms: int) -> bool:
        return bool(self._loop.run_until_complete(self._consumer.getmany(timeout_ms=timeout_ms)))

    def commit(self) -> None:
        self._loop.run_until_complete(self._consumer.commit())

    def count(self) -> int:
        return len(self._consumer.assignment())

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


CLIENTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "kafka-python": KafkaPython,
    "confluent": Confluent,
    "confluent-consumer": ConfluentConsumer,
    "aiokafka": Aiokafka,
}


class Member(threading.Thread):
    """A consumer that polls on its own thread until `leaving` is set."""

    def __init__(self, request: dict[str, Any], subscribed: Callable[[], None], seen: threading.Event) -> None:
        super().__init__(daemon=True)
        self._request = request
        self._subscribed = subscribed
        self._seen = seen
        self.seen_at = self.close_began = self.closed_at = 0.0
        self.client: Any = None
        self.error = ""
        self.leaving = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            self.client = client = CLIENTS[sys.argv[-1]](self._request)
            self._subscribed()
            while not self.leaving.is_set():
                if client.poll(self._request["poll_ms"]):
                    self.seen_at = self.seen_at or time.monotonic()
                    client.commit()
                    self._seen.set()
            self.close_began = time.monotonic()
            client.close()
            self.closed_at = time.monotonic()
        except Exception as error:  # noqa: BLE001 - whatever it is, the result has it
            self.error = repr(error)


def phase(request: dict[str, Any], members: int) -> dict[str, Any]:
    """Wait for a record in a group of new consumers, close one of several, and then close the others."""
    began = time.monotonic()
    countdown = threading.Semaphore(0)
    seen = threading.Event()
    group = [Member(request, countdown.release, seen) for _ in range(members)]
    for _ in group:
        countdown.acquire(timeout=REASSIGNED_S)
    print(json.dumps({"subscribed": True}), flush=True)
    seen.wait(STALL_S)
    result: dict[str, Any] = {"leave_ms": None, "is_settled": True}
    partitions = len(request["topics"]) * request["partitions"]
    if members > 1:
        result["is_settled"] = settle(group, partitions)
        left = group[-1]
        left.leaving.set()
        if result["is_settled"] and settle(group[:-1], partitions):
            result["leave_ms"] = (time.monotonic() - left.close_began) * 1000
    for member in group:
        member.leaving.set()
    for member in group:
        member.join(REASSIGNED_S)
    seen_at = [member.seen_at for member in group if member.seen_at]
    result["record_ms"] = (min(seen_at) - began) * 1000 if seen_at else None
    result["closes_ms"] = [(member.closed_at - member.close_began) * 1000 for member in group if member.closed_at]
    result["error"] = "; ".join(member.error for member in group if member.error)
    return result


def settle(group: list[Member], partitions: int) -> bool:
    """Wait until all of these members and all partitions are assigned. Return whether they are."""
    deadline = time.monotonic() + REASSIGNED_S
    while time.monotonic() < deadline:
        counts = [member.client.count() if member.client else 0 for member in group]
        if all(counts) and sum(counts) == partitions:
            return True
        time.sleep(0.001)
    return False


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"first": phase(request, request["members"]), "second": phase(request, 1)}), flush=True)


if __name__ == "__main__":
    main()
