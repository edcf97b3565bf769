"""A member with kafka-python: the one of the tests, or an older one from the folder that comes before the options."""

import sys
from typing import Any

from tests.clients.kafka_versions import import_kafka
from tests.clients.members.talk import Talk

POLL_MS = 100


class Member:
    """One consumer of a group."""

    def __init__(self, kafka: Any, talk: Talk) -> None:
        self._talk = talk
        self._kafka = kafka
        self._major = int(kafka.__version__.partition(".")[0])
        options = talk.options
        configuration: dict[str, Any] = {
            "bootstrap_servers": options["bootstrap"],
            "client_id": options["client_id"],
            "group_id": options["group"],
            "session_timeout_ms": options["session_timeout_ms"],
            "heartbeat_interval_ms": options["heartbeat_interval_ms"],
            "enable_auto_commit": options["auto_commit"],
            "auto_commit_interval_ms": options["auto_commit_interval_ms"],
            "auto_offset_reset": "earliest",
        }
        if options["instance_id"] is not None:
            configuration["group_instance_id"] = options["instance_id"]
        if options["rack"] is not None:
            configuration["client_rack"] = options["rack"]
        if options["strategy"] == "cooperative":
            from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor  # type: ignore[import-untyped] # noqa: PLC0415 - not in all

            configuration["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        self._consumer = kafka.KafkaConsumer(**configuration)
        self._consumer.subscribe(options["topics"], listener=self._listener())
        # Version 3.0 asks for a topic's metadata 0.1 s after it has connected, and joins at once. A leader that has
        # joined before it knew the topic joins again, and when the time of a poll ends while it waits for the answer
        # to its SyncGroup, it takes itself for joined and waits for nothing any more. So here it knows the topic first.
        for topic in options["topics"]:
            self._consumer.partitions_for_topic(topic)
        talk.say("ready")

    def _poll(self) -> dict[Any, list[Any]]:
        try:
            polled: dict[Any, list[Any]] = self._consumer.poll(timeout_ms=POLL_MS)
        except self._kafka.errors.KafkaConnectionError:
            return {}  # Version 3.0 lets it through when it looks for the metadata of a broker that restarts.
        return polled

    def run(self) -> None:
        """Poll until told to close."""
        while True:
            for records in self._poll().values():
                for record in records:
                    value = (record.value or b"").decode()
                    self._talk.say(
                        "record", topic=record.topic, partition=record.partition, offset=record.offset, value=value
                    )
            for command in self._talk.commands():
                match command["do"]:
                    case "commit":
                        self._talk.say("committed", error=self._commit(command["offsets"]))
                    case "offsets":
                        self._talk.say("offsets", offsets=[self._committed(*each) for each in command["partitions"]])
                    case _:
                        self._consumer.close()
                        self._talk.say("closed")
                        return

    def _listener(self) -> Any:
        member, talk = self, self._talk

        class Listener(self._kafka.ConsumerRebalanceListener):  # type: ignore[misc,name-defined] # it has no types
            def on_partitions_assigned(self, assigned: Any) -> None:
                talk.partitions("assigned", member._consumer.assignment())

            def on_partitions_revoked(self, revoked: Any) -> None:
                talk.partitions("revoked", revoked)

            def on_partitions_lost(self, lost: Any) -> None:
                talk.partitions("lost", lost)

        return Listener()

    def _commit(self, offsets: Any) -> str | None:
        structs = self._kafka.structs
        leader_epoch = [-1] if self._major > 1 else []
        requested_offsets = {
            structs.TopicPartition(topic, partition): structs.OffsetAndMetadata(offset, metadata, *leader_epoch)
            for topic, partition, offset, metadata in offsets
        }
        try:
            self._consumer.commit(requested_offsets)
        except self._kafka.errors.KafkaError as error:
            return repr(error)
        return None

    def _committed(self, topic: str, partition: int) -> list[Any]:
        requested_partition = self._kafka.TopicPartition(topic, partition)
        if self._major == 1:
            return [topic, partition, self._consumer.committed(requested_partition), None]
        found = self._consumer.committed(requested_partition, metadata=True)
        return [topic, partition, *((None, None) if found is None else found[:2])]


if __name__ == "__main__":
    Member(import_kafka(sys.argv[1] if len(sys.argv) > 2 else None), Talk()).run()
