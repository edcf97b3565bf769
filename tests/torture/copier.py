"""A copier with confluent-kafka: a program of its own, so that it can be killed.

Arguments, events and copies are those of `tests/clients/java/Copier.java`, and some more:

    BOOTSTRAP GROUP INPUT OUTPUT TRANSACTIONAL_ID RECORDS SESSION_TIMEOUT_MS TRANSACTION_TIMEOUT_MS DOOMED SEED
    [INSTANCE_ID]

A transaction has at most RECORDS. DOOMED percent of the transactions are aborted on purpose, as SEED has it. It ends at
the end of its standard input, after the transaction at hand. Unlike the other one it gives up when it is fenced:

| event | with |
|---|---|
| fenced | error: why; the last event, and the exit status is `FENCED` |
| displaced | error: why another one has its instance id; the last event, and the exit status is `DISPLACED` |
| misled | partition, offset, expected: the client gave not the next record; the last event, and the exit status is 1 |
| fatal | error: one that an abort does not mend; the last event, and the exit status is 1 |

With COPIER_DEBUG in the environment librdkafka writes what it does to stderr: COPIER_DEBUG=eos,protocol for example.
"""

import json
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.torture.copies import DOOMED, Turns, copy_of

FENCED: Final = 3
DISPLACED: Final = 4
_FENCED_BY: Final = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
# A consumer has no other fatal error than that its instance id is another one's, and names it in the text alone.
_DISPLACED_BY: Final = {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID}
_CALL_S: Final = 5.0
"""Seconds that a call of the client may take before it is made again."""
_QUICK: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    # To begin again from the bootstrap address when all brokers are gone: librdkafka 2.16 then forgets the coordinator
    # of a transaction that it is about to end, and waits for ever.
    "metadata.recovery.strategy": "none",
    "socket.timeout.ms": 5000,
    "allow.auto.create.topics": False,
    "log_level": 2,  # a broker that is gone is no news here
    **({"debug": os.environ["COPIER_DEBUG"], "log_level": 7} if "COPIER_DEBUG" in os.environ else {}),
}

_Result = TypeVar("_Result")


class MisledError(Exception):
    """The client gave a record that is not the next one of its partition, without a seek or an assignment."""


class Copier:
    """One copier, from its arguments."""

    def __init__(self, arguments: Sequence[str]) -> None:
        bootstrap, group, self._input, self._output, transactional_id = arguments[:5]
        self._records, session_ms, transaction_ms, doomed, seed = map(int, arguments[5:10])
        self._doomed = doomed / 100
        self._rng = random.Random(seed)
        self._ended = threading.Event()
        self._batch: list[Message] = []
        self._turns = Turns()
        common = {"bootstrap.servers": bootstrap, "client.id": transactional_id, **_QUICK}
        self._producer = Producer(
            {**common, "transactional.id": transactional_id, "transaction.timeout.ms": transaction_ms, "linger.ms": 0}
        )
        options = {
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": session_ms // 6,
            "fetch.error.backoff.ms": 20,
        }
        if len(arguments) > 10:
            options["group.instance.id"] = arguments[10]
        self._consumer = Consumer({**common, **options})

    def run(self) -> int:
        """Copy until standard input ends; returns the exit status."""
        threading.Thread(target=self._await_end_of_input, daemon=True).start()
        try:
            self._again(lambda: self._producer.init_transactions(_CALL_S))
            say("ready")
            self._consumer.subscribe([self._input], on_assign=self._assigned, on_revoke=self._revoked)
            while not self._ended.is_set():
                self._poll()
                if self._batch:
                    self._copy()
            self._consumer.close()
        except KafkaException as failure:
            for codes, event, status in ((_FENCED_BY, "fenced", FENCED), (_DISPLACED_BY, "displaced", DISPLACED)):
                if _error_of(failure).code() in codes:
                    say(event, error=str(failure))
                    return status
            say("fatal", error=str(failure))
            return 1
        except MisledError:
            return 1
        say("closed")
        return 0

    def _poll(self) -> None:
        """Gather a batch. All rebalances happen in here, when no transaction is open."""
        self._batch.clear()
        wait_s = 0.1
        while len(self._batch) < self._records:
            message = self._consumer.poll(wait_s)
            if message is None:
                return
            error = message.error()
            if error is None:
                self._check_order(message)
                self._batch.append(message)
                wait_s = 0.0
            elif error.code() in _DISPLACED_BY:
                raise KafkaException(error)
            else:
                say("error", text=str(error))

    def _check_order(self, message: Message) -> None:
        """Within an assignment the client gives each record once, and leaves none out. `MisledError` otherwise.

        The input has neither control records nor retention, so its offsets have no gaps.
        """
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        expected = self._turns.take(partition, offset)
        if offset != expected:
            say("misled", partition=partition, offset=offset, expected=expected)
            raise MisledError

    def _copy(self) -> None:
        try:
            is_doomed = self._transact()
        except KafkaException as failure:
            if not _error_of(failure).txn_requires_abort():
                raise
            self._abort(str(failure))
        else:
            if is_doomed:
                self._abort("on purpose")

    def _transact(self) -> bool:
        """One transaction, up to its commit; True if it must be aborted instead."""
        is_doomed = self._rng.random() < self._doomed
        ranges: dict[int, tuple[int, int]] = {}
        self._producer.begin_transaction()
        for message in self._batch:
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            copy = copy_of(self._input, partition, offset, value or b"") + (DOOMED if is_doomed else b"")
            self._producer.produce(self._output, copy, partition=partition)
            ranges[partition] = (ranges.get(partition, (offset, 0))[0], offset + 1)
        if not is_doomed or self._rng.random() < 0.5:
            offsets = [TopicPartition(self._input, partition, behind) for partition, (_, behind) in ranges.items()]
            metadata = self._consumer.consumer_group_metadata()
            self._again(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, _CALL_S))
        if is_doomed:
            if self._rng.random() < 0.5:
                self._again(lambda: self._producer.flush(_CALL_S))
            return True
        self._again(lambda: self._producer.commit_transaction(_CALL_S))
        say("committed", ranges=[(self._input, partition, *ends) for partition, ends in ranges.items()])
        return False

    def _abort(self, why: str) -> None:
        """Abort, and go back to what is committed: what was polled since has not been copied."""
        self._again(lambda: self._producer.abort_transaction(_CALL_S))
        say("aborted", error=why)
        held = self._again(self._consumer.assignment)
        if held:
            committed = self._again(lambda: self._consumer.committed(held, _CALL_S))
            self._turns.begin()
            self._consumer.assign(committed)

    def _again(self, call: Callable[[], _Result]) -> _Result:
        """Call until it succeeds or fails for good."""
        while True:
            try:
                return call()
            except KafkaException as failure:
                if not _is_retriable(_error_of(failure)):
                    raise
                say("error", text=str(failure))

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._turns.begin()
        say("assigned", partitions=sorted((each.topic, each.partition) for each in partitions))

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._batch.clear()
        say("revoked", partitions=sorted((each.topic, each.partition) for each in partitions))

    def _await_end_of_input(self) -> None:
        sys.stdin.read()
        self._ended.set()


def _error_of(failure: KafkaException) -> KafkaError:
    error: KafkaError = failure.args[0]
    return error


def _is_retriable(error: KafkaError) -> bool:
    timed_out = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._WAIT_COORD}
    return error.retriable() or (error.code() in timed_out and not error.fatal() and not error.txn_requires_abort())


def say(event: str, **fields: Any) -> None:
    """Print an event."""
    print(json.dumps({"event": event, **fields}), flush=True)  # noqa: T201 - the way in which it talks


if __name__ == "__main__":
    sys.exit(Copier(sys.argv[1:]).run())
