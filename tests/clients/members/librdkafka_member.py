"""A member with confluent-kafka, and so librdkafka."""

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.members.talk import Talk
from tests.patience import PATIENCE_S

POLL_S = 0.1


class Member:
    """One consumer of a group."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        options = talk.options
        configuration: dict[str, Any] = {
            "bootstrap.servers": options["bootstrap"],
            "client.id": options["client_id"],
            "group.id": options["group"],
            "enable.auto.commit": options["auto_commit"],
            "auto.commit.interval.ms": options["auto_commit_interval_ms"],
            "auto.offset.reset": "earliest",
            "error_cb": self._on_error,
        }
        if options["strategy"] == "consumer":
            configuration["group.protocol"] = "consumer"
        else:
            configuration["session.timeout.ms"] = options["session_timeout_ms"]
            configuration["heartbeat.interval.ms"] = options["heartbeat_interval_ms"]
            configuration["partition.assignment.strategy"] = (
                "cooperative-sticky" if self._is_cooperative else "range,roundrobin"
            )
        if options["instance_id"] is not None:
            configuration["group.instance.id"] = options["instance_id"]
        if options["rack"] is not None:
            configuration["client.rack"] = options["rack"]
        self._consumer = Consumer(configuration)
        self._consumer.subscribe(
            options["topics"], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        talk.say("ready")

    def run(self) -> None:
        """Poll until told to close."""
        while True:
            message = self._consumer.poll(POLL_S)
            if message is not None:
                self._on_message(message)
            for command in self._talk.commands():
                match command["do"]:
                    case "commit":
                        self._talk.say("committed", error=self._commit(command["offsets"]))
                    case "offsets":
                        self._talk.say("offsets", offsets=self._committed(command["partitions"]))
                    case _:
                        self._consumer.close()
                        self._talk.say("closed")
                        return

    @property
    def _is_cooperative(self) -> bool:
        return bool(self._talk.options["strategy"] != "eager")

    def _on_message(self, message: Any) -> None:
        error = message.error()
        if error is not None:
            self._talk.say("error", text=error.str())
            return
        value = (message.value() or b"").decode()
        self._talk.say(
            "record", topic=message.topic(), partition=message.partition(), offset=message.offset(), value=value
        )

    def _on_error(self, error: KafkaError) -> None:
        self._talk.say("error", text=error.str())

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        self._talk.partitions("assigned", consumer.assignment())

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._talk.partitions("revoked", partitions)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._talk.partitions("lost", partitions)

    def _commit(self, offsets: Any) -> str | None:
        partitions = [
            TopicPartition(topic, partition, offset, metadata) for topic, partition, offset, metadata in offsets
        ]
        try:
            answers = self._consumer.commit(offsets=partitions, asynchronous=False) or []
        except KafkaException as error:
            return repr(error)
        return next((answer.error.str() for answer in answers if answer.error is not None), None)

    def _committed(self, partitions: Any) -> list[list[Any]]:
        requested_partitions = [TopicPartition(topic, partition) for topic, partition in partitions]
        return [
            [found.topic, found.partition, found.offset if found.offset >= 0 else None, found.metadata]
            for found in self._consumer.committed(requested_partitions, timeout=PATIENCE_S)
        ]


if __name__ == "__main__":
    Member(Talk()).run()
