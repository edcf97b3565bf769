"""The admin API of kafka-python, of every version: the names differ, and so do the shapes of what is answered."""

from collections.abc import Callable
from typing import Any

from tests.clients.matrix.drivers import harness

PASSWORD = b"secret-enough"


class Admin:
    """The checks; `base` is the driver's main module."""

    def __init__(self, base: Any) -> None:
        self._base = base
        self._kafka = base.kafka
        self._new = base.MAJOR >= 3
        self._types = base.kafka.admin

    def checks(self) -> dict[str, Callable[[], None]]:
        """Those that this version has something for."""
        has = {name for name in dir(self._kafka.KafkaAdminClient) if not name.startswith("_")}
        offered: dict[str, tuple[bool, Callable[[], None]]] = {
            "list-topics": ("list_topics" in has, self._list_topics),
            "describe-topics": ("describe_topics" in has, self._describe_topics),
            "describe-topic-partitions": ("describe_topic_partitions" in has, self._describe_topic_partitions),
            "describe-configs": (True, self._describe_configs),
            "alter-configs": (True, self._alter_configs),
            "incremental-configs": ("reset_configs" in has, self._incremental_configs),
            "create-partitions": (True, self._create_partitions),
            "delete-records": ("delete_records" in has, self._delete_records),
            "list-groups": (True, self._list_groups),
            "describe-groups": (True, self._describe_groups),
            "list-group-offsets": (True, self._list_group_offsets),
            "alter-group-offsets": ("alter_group_offsets" in has, self._alter_group_offsets),
            "delete-group-offsets": ("delete_group_offsets" in has, self._delete_group_offsets),
            "delete-groups": (bool(has & {"delete_groups", "delete_consumer_groups"}), self._delete_groups),
            "max-timestamp": ("list_partition_offsets" in has, self._max_timestamp),
            "acls": (True, self._acls),
            "scram": ("alter_user_scram_credentials" in has, self._scram),
            "log-dirs": ("describe_log_dirs" in has, self._log_dirs),
            "reassignments": ("alter_partition_reassignments" in has, self._reassignments),
            "elect-leaders": (bool(has & {"elect_leaders", "perform_leader_election"}), self._elect_leaders),
            "cluster": ("describe_cluster" in has, self._cluster),
            "features": ("describe_features" in has, self._features),
            "quorum": ("describe_metadata_quorum" in has, self._quorum),
            "producers": ("describe_producers" in has, self._producers),
            "transactions": ("describe_transactions" in has, self._transactions),
            "config-resources": ("list_config_resources" in has, self._config_resources),
            "delete-topic": (True, self._delete_topic),
        }
        return {name: check for name, (there, check) in offered.items() if there}

    def _call(self, name: str, *arguments: Any, old: str | None = None, **options: Any) -> Any:
        with self._base.admin() as each:
            return getattr(each, name if self._new or old is None else old)(*arguments, **options)

    def _partition(self, topic: str) -> Any:
        return self._kafka.TopicPartition(topic, 0)

    def _list_topics(self) -> None:
        topic = self._base.new_topic("list-topics")
        assert topic in str(self._call("list_topics"))

    def _describe_topics(self) -> None:
        topic = self._base.new_topic("describe-topics", 3)
        (found,) = self._call("describe_topics", [topic])
        assert len(found["partitions"]) == 3, found

    def _describe_topic_partitions(self) -> None:
        topic = self._base.new_topic("describe-topic-partitions", 3)
        assert topic in str(self._call("describe_topic_partitions", [topic]))

    def _configs(self, topic: str) -> str:
        resource = self._types.ConfigResource(self._types.ConfigResourceType.TOPIC, topic)
        return str(self._call("describe_configs", [resource], **({"config_filter": "all"} if self._new else {})))

    def _describe_configs(self) -> None:
        assert "retention.ms" in self._configs(self._base.new_topic("describe-configs"))
        resource = self._types.ConfigResource(self._types.ConfigResourceType.BROKER, "1")
        options = {"config_filter": "all"} if self._new else {}
        assert "log.retention" in str(self._call("describe_configs", [resource], **options))

    def _alter(self, topic: str, **options: Any) -> None:
        resource = self._types.ConfigResource(
            self._types.ConfigResourceType.TOPIC, topic, configs={"retention.ms": "123456789"}
        )
        self._call("alter_configs", [resource], **options)
        harness.eventually(lambda: "123456789" in self._configs(topic))

    def _alter_configs(self) -> None:
        self._alter(self._base.new_topic("alter-configs"), **({"incremental": False} if self._new else {}))

    def _incremental_configs(self) -> None:
        self._alter(self._base.new_topic("incremental-configs"), incremental=True)

    def _create_partitions(self) -> None:
        topic = self._base.new_topic("create-partitions")
        self._call("create_partitions", {topic: self._types.NewPartitions(3)})
        with self._base.consumer() as each:
            harness.eventually(lambda: each.partitions_for_topic(topic) == {0, 1, 2})

    def _delete_records(self) -> None:
        topic = self._base.new_topic("delete-records")
        self._base.send(topic, [b"1", b"2", b"3"])
        self._call("delete_records", {self._partition(topic): 2})
        with self._base.consumer() as each:
            assert each.beginning_offsets([self._partition(topic)]) == {self._partition(topic): 2}

    def _group(self, name: str, *, live: bool = False) -> tuple[str, str]:
        """A group that has committed offset 1, without a member unless `live`."""
        topic = self._base.new_topic(name)
        self._base.send(topic, [b"1", b"2"])
        group = f"{self._base.PREFIX}-{name}"
        with self._base.consumer(topic, group_id=group, enable_auto_commit=False) as each:
            self._base.poll(each, 1)
            each.commit({self._partition(topic): self._base.offset_and_metadata(1)})
            if live:
                assert group in str(self._call("describe_groups", [group], old="describe_consumer_groups"))
        return topic, group

    def _list_groups(self) -> None:
        _, group = self._group("list-groups")
        assert group in str(self._call("list_groups", old="list_consumer_groups"))

    def _describe_groups(self) -> None:
        self._group("describe-groups", live=True)

    def _offsets(self, group: str) -> Any:
        return self._call(
            "list_group_offsets", group if not self._new else {group: None}, old="list_consumer_group_offsets"
        )

    def _list_group_offsets(self) -> None:
        _, group = self._group("list-group-offsets")
        assert "OffsetAndMetadata(offset=1" in str(self._offsets(group)), self._offsets(group)

    def _alter_group_offsets(self) -> None:
        topic, group = self._group("alter-group-offsets")
        self._call("alter_group_offsets", group, {self._partition(topic): self._base.offset_and_metadata(2)})
        assert "OffsetAndMetadata(offset=2" in str(self._offsets(group)), self._offsets(group)

    def _delete_group_offsets(self) -> None:
        topic, group = self._group("delete-group-offsets")
        self._call("delete_group_offsets", group, [self._partition(topic)])
        assert "OffsetAndMetadata(offset=1" not in str(self._offsets(group)), self._offsets(group)

    def _delete_groups(self) -> None:
        _, group = self._group("delete-groups")
        self._call("delete_groups", [group], old="delete_consumer_groups")
        assert group not in str(self._call("list_groups", old="list_consumer_groups"))

    def _max_timestamp(self) -> None:
        topic = self._base.new_topic("max-timestamp")
        for timestamp in (3_000, 9_000, 6_000):
            self._base.send(topic, [b"v"], timestamp_ms=timestamp)
        spec = {self._partition(topic): self._types.OffsetSpec.MAX_TIMESTAMP}
        assert "9000" in str(self._call("list_partition_offsets", spec))

    def _acls(self) -> None:
        types = self._types
        resource = types.ResourcePattern(types.ResourceType.TOPIC, f"{self._base.PREFIX}-acls")
        fields = {"principal": "User:alice", "host": "*", "operation": types.ACLOperation.READ}
        acl = types.ACL(permission_type=types.ACLPermissionType.ALLOW, resource_pattern=resource, **fields)
        acl_filter = types.ACLFilter(
            permission_type=types.ACLPermissionType.ANY,
            resource_pattern=types.ResourcePatternFilter(
                types.ResourceType.TOPIC, resource.resource_name, types.ACLResourcePatternType.LITERAL
            ),
            **fields,
        )
        self._call("create_acls", [acl])
        harness.eventually(lambda: "alice" in str(self._call("describe_acls", acl_filter)))
        self._call("delete_acls", [acl_filter])
        harness.eventually(lambda: "alice" not in str(self._call("describe_acls", acl_filter)[0]))

    def _scram(self) -> None:
        types = self._types
        user = f"{self._base.PREFIX}-scram"
        mechanism = types.ScramMechanism.SCRAM_SHA_256
        self._call(
            "alter_user_scram_credentials", [types.UserScramCredentialUpsertion(user, mechanism, PASSWORD, 4096)]
        )
        harness.eventually(lambda: "4096" in str(self._call("describe_user_scram_credentials", [user])))
        self._call("alter_user_scram_credentials", [types.UserScramCredentialDeletion(user, mechanism)])

    def _log_dirs(self) -> None:
        topic = self._base.new_topic("log-dirs")
        assert topic in str(self._call("describe_log_dirs"))

    def _broker(self) -> int:
        (broker,) = self._call("describe_cluster")["brokers"]
        return int(broker["node_id"] if "node_id" in broker else broker["broker_id"])

    def _reassignments(self) -> None:
        topic = self._base.new_topic("reassignments")
        self._call("alter_partition_reassignments", {self._partition(topic): [self._broker()]})
        harness.eventually(lambda: not self._call("list_partition_reassignments"))

    def _elect_leaders(self) -> None:
        topic = self._base.new_topic("elect-leaders")
        with self._base.admin() as each:
            if self._new:
                each.elect_leaders(0, [self._partition(topic)])  # no error: it knows that "not needed" is none
                return
            try:
                answer = str(each.perform_leader_election(0, {topic: [0]}))
            except Exception as error:  # noqa: BLE001 - it may be an answer, too
                answer = repr(error)
        assert "ElectionNotNeeded" in answer or "error_code=84" in answer, answer

    def _cluster(self) -> None:
        found = self._call("describe_cluster")
        assert found["cluster_id"], found
        assert len(found["brokers"]) >= 1, found

    def _features(self) -> None:
        assert "metadata.version" in str(self._call("describe_features"))

    def _quorum(self) -> None:
        assert "leader_id" in str(self._call("describe_metadata_quorum"))

    def _producers(self) -> None:
        topic = self._base.new_topic("producers")
        self._base.send(topic, [b"v"], {"enable_idempotence": True})
        assert "producer_id" in str(self._call("describe_producers", [self._partition(topic)]))

    def _transactions(self) -> None:
        topic = self._base.new_topic("transactions")
        with self._base.transactional("transactions") as each:
            each.init_transactions()
            each.begin_transaction()
            each.send(topic, value=b"v", partition=0).get(self._base.TIMEOUT)
            name = f"{self._base.PREFIX}-transactions"
            assert name in str(self._call("list_transactions"))
            assert topic in str(self._call("describe_transactions", [name]))
            each.commit_transaction()

    def _config_resources(self) -> None:
        self._call("list_config_resources")

    def _delete_topic(self) -> None:
        topic = self._base.new_topic("delete-topic")
        self._call("delete_topics", [topic])
        with self._base.consumer() as each:
            harness.eventually(lambda: topic not in each.topics())
