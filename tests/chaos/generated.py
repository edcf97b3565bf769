"""Generated clients under chaos, and a checker of the broker that uses nothing but what the clients were told.

python -m tests.chaos.generated [--first SEED] [--runs N] [--profile P]
"""

import argparse
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import AcknowledgeType, Consumer, KafkaException, Producer, ShareConsumer, TopicPartition

from minibroker import Broker
from tests.chaos.driver import CONFIG, say

_TOPIC: Final = "t"
_PARTITIONS: Final = 2
_RECORDS: Final = 12
_LIMIT_S: Final = 120.0
_OPERATION_S: Final = 15.0
_TRANSACTION_MS: Final = 60_000
_KINDS: Final[dict[str, dict[str, Any]]] = {
    "idempotent": {"enable.idempotence": True},
    "plain": {"acks": "all"},
    "leader-only": {"acks": 1},
    "unanswered": {"acks": 0},
}
_SAFE: Final = frozenset({"idempotent", "plain"})
Place = tuple[int, int]


class Clients:
    """The clients of one run, each in a thread, and what they were told.

    Attributes:
        confirmed: the value that each kind of producer was told to be at a partition and offset.
        read: the values that consumers got.
        commits: what the consumer of a group has committed, in order: partition, offset, whether that was confirmed.
        transactions: the values of each transaction, and its outcome.
        violations: what a client saw that must not happen.
    """

    def __init__(self, broker: Broker, seed: int) -> None:
        self._random = random.Random(seed)
        self._servers = broker.bootstrap_servers
        self._is_over = threading.Event()
        self.confirmed: dict[str, dict[Place, str]] = defaultdict(dict)
        self.read: dict[Place, set[str]] = defaultdict(set)
        self.commits: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
        self.transactions: list[tuple[list[str], str]] = []
        self.violations: list[str] = []

    def run(self) -> None:
        """Run all clients to their ends."""
        choose = self._random.random
        writers: list[Callable[[], None]] = [partial(self._produce, kind) for kind in _KINDS if choose() < 0.6]
        if choose() < 0.6:
            plan = [choose() < 0.7 for _ in range(4)]
            writers.append(partial(self._transact, plan, is_fenced=plan[0]))
        readers: list[Callable[[], None]] = []
        if choose() < 0.6:
            readers.append(lambda: self._consume("classic", "read_committed"))
        if choose() < 0.4:
            readers.append(lambda: self._consume("consumer", "read_uncommitted"))
        if choose() < 0.3:
            readers.append(self._share)
        ends = time.monotonic() + _LIMIT_S
        threads = [threading.Thread(target=self._guard, args=(run,), daemon=True) for run in [*readers, *writers]]
        for thread in threads:
            thread.start()
        for thread in threads[len(readers) :]:
            thread.join(max(0, ends - time.monotonic()))
        self._is_over.set()
        for thread in threads:
            thread.join(max(0, ends - time.monotonic()))
        self.violations += ["a client hangs" for thread in threads if thread.is_alive()]

    def _guard(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has failed
            self.violations.append(f"a client failed: {error!r}")

    def options(self, **settings: Any) -> dict[str, Any]:
        """Return the options of a client."""
        return {
            "bootstrap.servers": self._servers,
            "log_level": 0,
            "reconnect.backoff.ms": 5,
            "reconnect.backoff.max.ms": 100,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    def _produce(self, kind: str) -> None:
        producer = Producer(
            {
                **self.options(client_id=kind, linger_ms=1, retry_backoff_ms=10, message_timeout_ms=15_000),
                **_KINDS[kind],
            }
        )

        def delivered(error: Any, message: Any) -> None:
            if error is None and message.offset() is not None:  # acks=0 has none
                self.confirmed[kind][message.partition(), message.offset()] = message.value().decode()

        for number in range(_RECORDS):
            producer.produce(_TOPIC, f"{kind}/{number}", f"k{number % 3}", on_delivery=delivered)
            producer.poll(0.002)
        if producer.flush(2 * _OPERATION_S):
            self.violations.append(f"{kind}: records are neither delivered nor failed")

    def _transact(self, plan: list[bool], *, is_fenced: bool) -> None:
        def producer() -> Producer:
            options = self.options(transactional_id="x", client_id="x", linger_ms=0, retry_backoff_ms=10)
            opened = Producer({**options, "transaction.timeout.ms": _TRANSACTION_MS})
            _insist(lambda: opened.init_transactions(_OPERATION_S))
            return opened

        def write(opened: Producer, number: int) -> list[str]:
            values = [f"transaction-{number}/{index}" for index in range(3)]
            opened.begin_transaction()
            for index, value in enumerate(values):
                opened.produce(_TOPIC, value, f"k{index}")
            return values

        with suppress(KafkaException):  # The client may give up, which leaves the outcome unknown.
            first = producer()
            for number, is_committed in enumerate(plan):
                self.transactions.append(([], "unknown"))
                values = write(first, number)
                self.transactions[-1] = values, "unknown"
                end = first.commit_transaction if is_committed else first.abort_transaction
                try:
                    _insist(partial(end, _OPERATION_S))
                except KafkaException as error:
                    if not error.args[0].txn_requires_abort():
                        raise
                    _insist(lambda: first.abort_transaction(_OPERATION_S))
                    self.transactions[-1] = values, "aborted"
                else:
                    self.transactions[-1] = values, "committed" if is_committed else "aborted"
            if is_fenced:
                values = write(first, len(plan))
                first.flush(_OPERATION_S)
                producer()
                self.transactions.append((values, "aborted"))
                with suppress(KafkaException):
                    _insist(lambda: first.commit_transaction(_OPERATION_S))
                    self.violations.append("a fenced producer has committed")

    def _consume(self, protocol: str, isolation: str) -> None:
        options = self.options(
            group_id=protocol, client_id=protocol, enable_auto_commit=False, isolation_level=isolation
        )
        consumer = Consumer({**options, "group.protocol": protocol, "auto.offset.reset": "earliest"})
        consumer.subscribe([_TOPIC])
        while not self._is_over.is_set():
            messages: list[Any] = [message for message in consumer.consume(5, 0.05) if message.error() is None]
            self._note(messages)
            for message in messages[-1:]:
                partition, offset = message.partition(), message.offset() + 1
                try:
                    consumer.commit(offsets=[TopicPartition(_TOPIC, partition, offset)], asynchronous=False)
                except KafkaException:
                    self.commits[protocol].append((partition, offset, False))
                else:
                    self.commits[protocol].append((partition, offset, True))
        consumer.close()

    def _share(self) -> None:
        consumer = ShareConsumer(
            self.options(group_id="share", client_id="share", share_acknowledgement_mode="explicit")
        )
        consumer.subscribe([_TOPIC])
        accepted: set[Place] = set()
        while not self._is_over.is_set():
            messages: list[Any] = [message for message in consumer.poll(0.05) if message.error() is None]
            self._note(messages)
            places = {(message.partition(), message.offset()) for message in messages}
            if accepted & places:
                self.violations.append(f"records come again after they were accepted: {accepted & places}")
            for message in messages:
                consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            with suppress(KafkaException):
                results = consumer.commit_sync(_OPERATION_S)
                if all(getattr(result, "error", None) is None for result in results or ()):
                    accepted |= places
        consumer.close()

    def _note(self, messages: list[Any]) -> None:
        for message in messages:
            self.read[message.partition(), message.offset()].add(message.value().decode())

    def probe(self) -> None:
        """Write to each partition, and read all of them, in the quiet phase."""
        producer = Producer(self.options(client_id="probe", message_timeout_ms=30_000))
        for partition in range(_PARTITIONS):
            producer.produce(_TOPIC, f"probe/{partition}", partition=partition)
        if producer.flush(_LIMIT_S):
            self.violations.append("a partition takes no records in the quiet phase")


def _insist(call: Callable[[], object]) -> None:
    """Repeat a call of a transaction as long as the client says that it may be repeated."""
    for attempt in range(20):
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable() or attempt == 19:
                raise
        else:
            return


def violations_of(broker: Broker, clients: Clients, rows: set[str]) -> list[str]:
    """Compare what clients were told with the log: what was confirmed stays, in order, and what was fenced is not."""
    found = [*clients.violations, *_of_log(broker, clients), *_of_transactions(broker, clients)]
    for group, commits in () if "commit-late" in rows else clients.commits.items():
        for partition in range(_PARTITIONS):
            own = [(offset, is_confirmed) for of, offset, is_confirmed in commits if of == partition]
            last = max((index for index, (_, is_confirmed) in enumerate(own) if is_confirmed), default=None)
            now = broker.group(group).committed().get((_TOPIC, partition))
            if last is not None and now not in {offset for offset, _ in own[last:]}:
                found.append(f"{group} has committed {own[last:]} of partition {partition}, and has {now}")
    return found


def _of_log(broker: Broker, clients: Clients) -> Iterator[str]:
    records = broker.records(_TOPIC, isolation="read_uncommitted")
    log = {(record.partition, record.offset): record.text() or "" for record in records}
    for kind in _SAFE:
        for place, value in clients.confirmed[kind].items():
            if log.get(place) != value:
                yield f"{kind}: {value} was confirmed at {place}, where {log.get(place)} is"
    for place, values in clients.read.items():
        if values != {log.get(place)}:
            yield f"{values} was read at {place}, where {log.get(place)} is"
    for partition in range(_PARTITIONS):
        texts = [text for (of, _), text in sorted(log.items()) if of == partition and text.startswith("idempotent/")]
        numbers = [int(text.partition("/")[2]) for text in texts]
        if numbers != sorted(set(numbers)):
            yield f"partition {partition} has the records of the idempotent producer as {numbers}"


def _of_transactions(broker: Broker, clients: Clients) -> Iterator[str]:
    visible = Counter(record.text() for record in broker.records(_TOPIC))
    for values, outcome in clients.transactions:
        counts = {visible[value] for value in values}
        allowed: list[set[int]] = {"committed": [{1}], "aborted": [{0}], "unknown": [{0}, {1}, set()]}[outcome]
        if counts not in allowed:
            yield f"{values} of a transaction that is {outcome} are visible {counts} times"
    if any(not visible[f"probe/{partition}"] for partition in range(_PARTITIONS)):
        yield "read_committed does not get to the end"


def run(broker: Broker, seed: int, profile: str) -> tuple[list[str], list[str]]:
    """Run generated clients under chaos. Returns the violations, and the report of the chaos."""
    broker.reset()
    with broker.chaos(seed=seed, profile=profile) as chaos:
        clients = Clients(broker, seed)
        clients.run()
        chaos.settle()
        broker.clock.advance(2 * _TRANSACTION_MS / 1000)  # what is left open is aborted
        clients.probe()
    return violations_of(broker, clients, {step.row for step in chaos.steps}), chaos.report()


def cluster() -> Broker:
    """Return the broker of all runs."""
    return Broker(brokers=3, topics=[f"{_TOPIC}:{_PARTITIONS}"], config=CONFIG, check=True, journal=5000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--profile", default="heavy")
    parser.add_argument("--verbose", action="store_true", help="print each run")
    options = parser.parse_args()
    failed = 0
    with cluster() as broker:
        for seed in range(options.first, options.first + options.runs):
            began = time.monotonic()
            violations, report = run(broker, seed, options.profile)
            failed += bool(violations)
            if violations or options.verbose:
                say("\n".join([f"seed {seed}: {time.monotonic() - began:.1f} s", *violations, *report]))
                for entry in broker.requests.entries() if violations else ():
                    say(f"  {entry.number} {entry}")
    say(f"{options.runs} runs, {failed} with violations")
    return failed


if __name__ == "__main__":
    sys.exit(main())
