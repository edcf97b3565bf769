"""The admin API of confluent-kafka."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from confluent_kafka import TopicPartition

from tests.clients.matrix.drivers import harness

kinds: Any = import_module("confluent_kafka.admin")
"""Its types do not say that what it offers is exported."""
names: Any = import_module("confluent_kafka")
"""Elderly versions do not have all of them."""

_NEEDED = {
    "acls": "create_acls",
    "alter-group-offsets": "alter_consumer_group_offsets",
    "delete-groups": "delete_consumer_groups",
    "delete-records": "delete_records",
    "elect-leaders": "elect_leaders",
    "incremental-configs": "incremental_alter_configs",
    "list-group-offsets": "list_consumer_group_offsets",
    "max-timestamp": "list_offsets",
    "scram": "alter_user_scram_credentials",
}
"""By check: what an elderly AdminClient does not have yet."""


def offers(name: str) -> bool:
    """Whether the AdminClient of this version has such a function."""
    return hasattr(kinds.AdminClient, name)


def begin_at_the_start(admin: Any, group: str) -> None:
    """Have a share group begin with the first records."""
    entry = kinds.ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=kinds.AlterConfigOpType.SET)
    resource = kinds.ConfigResource(kinds.ResourceType.GROUP, group, incremental_configs=[entry])
    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result(harness.PATIENCE)


class Admin:
    """The checks; `base` is the driver's main module."""

    def __init__(self, base: Any) -> None:
        self._base = base
        self._only = base.only

    def checks(self) -> dict[str, Callable[[], None]]:
        """All of them, by name."""
        checks = (
            self.list_topics, self.describe_topics, self.describe_configs, self.alter_configs, self.incremental_configs,
            self.create_partitions, self.delete_records, self.list_groups, self.describe_groups,
            self.list_group_offsets, self.alter_group_offsets, self.delete_groups, self.max_timestamp, self.acls,
            self.scram, self.elect_leaders, self.cluster, self.delete_topic,
        )  # fmt: skip
        found = {check.__name__.replace("_", "-"): check for check in checks}
        return {name: check for name, check in found.items() if name not in _NEEDED or offers(_NEEDED[name])}

    def list_topics(self) -> None:
        topic = self._base.new_topic("list-topics")
        assert topic in self._base.admin().list_topics(timeout=self._base.TIMEOUT).topics

    def describe_topics(self) -> None:
        topic = self._base.new_topic("describe-topics", 3)
        if not offers("describe_topics"):
            assert (
                len(self._base.admin().list_topics(topic=topic, timeout=self._base.TIMEOUT).topics[topic].partitions)
                == 3
            )
            return
        found = self._only(self._base.admin().describe_topics(names.TopicCollection([topic])))
        assert len(found.partitions) == 3
        assert str(found.topic_id)

    def _configs(self, topic: str) -> Any:
        return self._only(
            self._base.admin().describe_configs([kinds.ConfigResource(kinds.ConfigResource.Type.TOPIC, topic)])
        )

    def describe_configs(self) -> None:
        assert self._configs(self._base.new_topic("describe-configs"))["cleanup.policy"].value == "delete"

    def alter_configs(self) -> None:
        topic = self._base.new_topic("alter-configs")
        resource = kinds.ConfigResource(
            kinds.ConfigResource.Type.TOPIC, topic, set_config={"retention.ms": "123456789"}
        )
        self._only(self._base.admin().alter_configs([resource]))
        harness.eventually(lambda: self._configs(topic)["retention.ms"].value == "123456789")

    def incremental_configs(self) -> None:
        topic = self._base.new_topic("incremental-configs")
        entry = kinds.ConfigEntry("retention.ms", "123456789", incremental_operation=kinds.AlterConfigOpType.SET)
        resource = kinds.ConfigResource(kinds.ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._only(self._base.admin().incremental_alter_configs([resource]))
        harness.eventually(lambda: self._configs(topic)["retention.ms"].value == "123456789")

    def create_partitions(self) -> None:
        topic = self._base.new_topic("create-partitions")
        self._only(self._base.admin().create_partitions([kinds.NewPartitions(topic, 3)]))
        admin = self._base.admin()
        patience = self._base.TIMEOUT
        harness.eventually(lambda: len(admin.list_topics(topic=topic, timeout=patience).topics[topic].partitions) == 3)

    def delete_records(self) -> None:
        topic = self._base.new_topic("delete-records")
        self._base.send(topic, [b"1", b"2", b"3"])
        assert self._only(self._base.admin().delete_records([TopicPartition(topic, 0, 2)])).low_watermark == 2

    def _group(self, name: str) -> tuple[str, str]:
        """A group without members that has committed offset 1."""
        topic, group = self._base.new_topic(name), f"{self._base.PREFIX}-{name}"
        with self._base.Reader(group) as each:
            each.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        return topic, group

    def list_groups(self) -> None:
        _, group = self._group("list-groups")
        if not offers("list_consumer_groups"):
            assert group in [each.id for each in self._base.admin().list_groups(timeout=self._base.TIMEOUT)]
            return
        found = self._base.admin().list_consumer_groups().result(self._base.TIMEOUT).valid
        assert group in [each.group_id for each in found]

    def describe_groups(self) -> None:
        _, group = self._group("describe-groups")
        if not offers("describe_consumer_groups"):
            (known,) = self._base.admin().list_groups(group=group, timeout=self._base.TIMEOUT)
            assert (known.id, known.state) == (group, "Empty")
            return
        found = self._only(self._base.admin().describe_consumer_groups([group]))
        assert (found.group_id, found.state.name) == (group, "EMPTY")

    def _offset(self, group: str) -> int:
        asked = [names.ConsumerGroupTopicPartitions(group)]
        (found,) = self._only(self._base.admin().list_consumer_group_offsets(asked)).topic_partitions
        return int(found.offset)

    def list_group_offsets(self) -> None:
        _, group = self._group("list-group-offsets")
        assert self._offset(group) == 1

    def alter_group_offsets(self) -> None:
        topic, group = self._group("alter-group-offsets")
        asked = [names.ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])]
        self._only(self._base.admin().alter_consumer_group_offsets(asked))
        assert self._offset(group) == 2

    def delete_groups(self) -> None:
        _, group = self._group("delete-groups")
        self._only(self._base.admin().delete_consumer_groups([group]))

    def max_timestamp(self) -> None:
        topic = self._base.new_topic("max-timestamp")
        for timestamp in (3_000, 9_000, 6_000):
            self._base.send(topic, [b"v"], timestamp=timestamp)
        asked = {TopicPartition(topic, 0): kinds.OffsetSpec.max_timestamp()}
        found = self._only(self._base.admin().list_offsets(asked))
        assert (found.offset, found.timestamp) == (1, 9_000)

    def acls(self) -> None:
        name = f"{self._base.PREFIX}-acls"
        pattern = (
            kinds.ResourceType.TOPIC,
            name,
            kinds.ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            kinds.AclOperation.READ,
        )
        binding = kinds.AclBinding(*pattern, kinds.AclPermissionType.ALLOW)
        acl_filter = kinds.AclBindingFilter(*pattern, kinds.AclPermissionType.ANY)
        admin = self._base.admin()
        self._only(admin.create_acls([binding]))
        harness.eventually(lambda: admin.describe_acls(acl_filter).result(self._base.TIMEOUT) == [binding])
        assert self._only(admin.delete_acls([acl_filter])) == [binding]
        harness.eventually(lambda: admin.describe_acls(acl_filter).result(self._base.TIMEOUT) == [])

    def scram(self) -> None:
        user = f"{self._base.PREFIX}-scram"
        info = kinds.ScramCredentialInfo(kinds.ScramMechanism.SCRAM_SHA_256, 4096)
        admin = self._base.admin()
        self._only(
            admin.alter_user_scram_credentials([kinds.UserScramCredentialUpsertion(user, info, b"secret", b"salt")])
        )
        harness.eventually(lambda: self._iterations(admin, user) == [4096])
        deletion = kinds.UserScramCredentialDeletion(user, kinds.ScramMechanism.SCRAM_SHA_256)
        self._only(admin.alter_user_scram_credentials([deletion]))

    def _iterations(self, admin: Any, user: str) -> list[int]:
        found = self._only(admin.describe_user_scram_credentials([user])).scram_credential_infos
        return [info.iterations for info in found]

    def elect_leaders(self) -> None:
        partition = TopicPartition(self._base.new_topic("elect-leaders"), 0)
        found = self._base.admin().elect_leaders(names.ElectionType.PREFERRED, [partition]).result(self._base.TIMEOUT)
        assert [error and error.name() for error in found.values()] == ["ELECTION_NOT_NEEDED"], found

    def cluster(self) -> None:
        if not offers("describe_cluster"):
            known = self._base.admin().list_topics(timeout=self._base.TIMEOUT)
            assert known.cluster_id
            assert known.controller_id in known.brokers
            return
        found = self._base.admin().describe_cluster().result(self._base.TIMEOUT)
        assert found.cluster_id
        assert found.nodes
        assert found.controller

    def delete_topic(self) -> None:
        topic = self._base.new_topic("delete-topic")
        self._only(self._base.admin().delete_topics([topic]))
        admin = self._base.admin()
        harness.eventually(lambda: topic not in admin.list_topics(timeout=self._base.TIMEOUT).topics)
