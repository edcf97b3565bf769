"""One broker as a script about share groups sees it: see `group_world`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.messages.share_group import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from minibroker_protocol.messages.share_records import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from minibroker_protocol.records.batch import iter_batches
from tests.broker.harness import batch
from tests.kafka.consumer_group_world import ConsumerWorld
from tests.patience import PATIENCE_S

Place = tuple[str, int]
"""A partition: the name of a topic of the group, and an index."""
Acks = Mapping[Place, Sequence[tuple[int, int, Sequence[int]]]]
"""First offset, last offset and types of acknowledgements."""
_WAIT_MS: Final = int(PATIENCE_S * 1000)


class ShareWorld(ConsumerWorld):
    """A world whose group is a share group."""

    beside = ("share.record.lock.duration.ms", 15_000)

    def __init__(self, address: tuple[str, int], group_id: str) -> None:
        super().__init__(address, group_id)
        self.epochs: dict[str, int] = {}
        self.session_epochs: dict[str, int] = {}
        self.acquired: dict[str, list[tuple[Place, int, int]]] = {}
        self.reads: dict[str, Place] = {}

    def produce(self, place: Place, *values: bytes) -> None:
        """Append one batch."""
        data = PartitionProduceData(index=place[1], records=batch(*values))
        topic = TopicProduceData(name=self.topic(place[0]), partition_data=[data])
        self.ask("admin", ProduceRequest(acks=-1, timeout_ms=_WAIT_MS, topic_data=[topic]), 9)

    def _id(self, name: str) -> bytes:
        """The id of a topic; one that nobody has for an unknown name."""
        return {known: id_ for id_, known in self._names.items()}.get(name, b"\7" * 16)

    # Members

    def share_beat(self, member: str, epoch: int, topics: Sequence[str] | None = None) -> Any:
        """Send a heartbeat of a member and note the answer."""
        return self.ask(member or "nobody", self._heartbeat(member, epoch, topics), 1)

    def _heartbeat(self, member: str, epoch: int, topics: Sequence[str] | None) -> ShareGroupHeartbeatRequest:
        names = None if topics is None else [self.topic(each) for each in topics]
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=member, member_epoch=epoch, subscribed_topic_names=names
        )

    def join(self, member: str, *topics: str) -> None:  # type: ignore[override]  # share groups know no other way
        """Have a member join, or subscribe to something else; what it is given comes with `settle`."""
        answer = self.client(member).ask(self._heartbeat(member, self.epochs.get(member, 0), topics), 1)
        self.note(f"{member} joins", answer.error_code)
        if not answer.error_code:
            self.epochs[member] = answer.member_epoch

    def leave(self, member: str) -> None:  # type: ignore[override]  # as above
        """Have a member leave."""
        self.share_beat(member, -1)
        self.epochs.pop(member, None)

    def settle(self, *topics: str) -> None:  # type: ignore[override]  # as above
        """Send heartbeats until these topics are assigned and no member has to go on; note what the group is."""
        ids = {self._id(name) for name in topics}

        def is_settled() -> bool:
            for member, epoch in self.epochs.items():
                answer = self.client(member).ask(self._heartbeat(member, epoch, None), 1)
                if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    return False
                assert answer.error_code == 0, answer
                self.epochs[member] = answer.member_epoch
            group = self._described()
            assigned = {bytes(each.topic_id) for member in group.members for each in member.assignment.topic_partitions}
            current = {group.group_epoch, *(member.member_epoch for member in group.members)}
            return ids <= assigned and current == {group.assignment_epoch}

        self.wait(is_settled)
        self.share_look()

    def _described(self) -> Any:
        (group,) = self.client("admin").ask(self._describe_request(), 1).groups
        return group

    def _describe_request(self) -> ShareGroupDescribeRequest:
        return ShareGroupDescribeRequest(group_ids=[self.group_id], include_authorized_operations=False)

    def share_look(self) -> None:
        """Note what the group is.

        Who of equal members reads which partition depends on the hash of their ids in Kafka. So the partitions that
        are read are noted, not by whom; `test_share_assignor` compares that.
        """
        group = self._described()
        assigned = {
            (self._names.get(bytes(each.topic_id)), index)
            for member in group.members
            for each in member.assignment.topic_partitions
            for index in each.partitions
        }
        for member in group.members:
            member.assignment.topic_partitions = []
        self.note("the group", group)
        self.note("is read", repr(sorted(assigned, key=repr)))

    # Records

    def fetch(
        self,
        member: str,
        *places: Place,
        acks: Acks | None = None,
        epoch: int | None = None,
        wait: bool = False,
        forgotten: Sequence[Place] = (),
        version: int = 2,
        **fields: Any,
    ) -> Any:
        """Fetch in the member's session and note what came; `wait` until something has come."""
        label = f"{member} fetches {places} {acks or {}} in {epoch} {fields}"
        epoch = self.session_epochs.get(member, 0) if epoch is None else epoch
        answer = self._fetched(member, places, acks or {}, epoch, _WAIT_MS if wait else 0, forgotten, version, fields)
        self._note_fetched(label, member, answer)
        return answer

    def fetch_until(self, member: str, place: Place, offsets: Sequence[int], acks: Acks) -> Mapping[int, int]:
        """Acknowledge with a fetch, and fetch on until some offsets have come; note all that came, return how often.

        Kafka may give out again at once what a fetch itself releases, or with the next fetch.
        """
        found: dict[int, int] = {}

        def has_come() -> bool:
            answer = self._fetched(
                member, (place,), pending.pop() if pending else {}, self.session_epochs.get(member, 0)
            )
            partitions = [each for topic in answer.responses for each in topic.partitions]
            assert not answer.error_code, answer
            assert not any(each.error_code or each.acknowledge_error_code for each in partitions), answer
            for each in partitions:
                for run in each.acquired_records:
                    self.acquired.setdefault(member, []).append((place, run.first_offset, run.last_offset))
                    found.update(dict.fromkeys(range(run.first_offset, run.last_offset + 1), int(run.delivery_count)))
            return found.keys() >= {*offsets}

        pending = [acks]
        self.wait(has_come)
        self.note(f"{member} fetches until {offsets}", repr(sorted(found.items())))
        return found

    def _fetched(
        self,
        member: str,
        places: Sequence[Place],
        acks: Acks,
        epoch: int,
        wait_ms: int = 0,
        forgotten: Sequence[Place] = (),
        version: int = 2,
        fields: Mapping[str, Any] | None = None,
    ) -> Any:
        topics: dict[str, FetchTopic] = {}
        for name, index in dict.fromkeys((*places, *acks)):
            topic = topics.setdefault(name, FetchTopic(topic_id=self._id(name), partitions=[]))
            topic.partitions.append(
                FetchPartition(partition_index=index, acknowledgement_batches=_batches(acks.get((name, index), ())))
            )
        sizes = {"min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        given: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": member,
            "share_session_epoch": epoch,
            "max_wait_ms": wait_ms,
            "topics": list(topics.values()),
            "forgotten_topics_data": [
                ForgottenTopic(topic_id=self._id(name), partitions=[index]) for name, index in forgotten
            ],
            **sizes,
            **(fields or {}),
        }
        answer = self.client(member).ask(ShareFetchRequest(**given), version)
        self._went_on(member, epoch, answer.error_code)
        return answer

    def _went_on(self, member: str, epoch: int, code: int) -> None:
        if not code:
            self.session_epochs[member] = 0 if epoch == -1 else epoch + 1

    def _note_fetched(self, label: str, member: str, answer: Any) -> None:
        """Note what came, and keep what the member has acquired.

        Partitions about which there is nothing to tell are left out: which of them are named is not compared.
        """
        found: list[tuple[Place, Any]] = []
        for topic in answer.responses:
            name = self._names.get(bytes(topic.topic_id), "unknown")
            found += (((name, each.partition_index), each) for each in topic.partitions)
        found.sort(key=lambda each: each[0])
        lines: list[Any] = [answer.error_code, answer.acquisition_lock_timeout_ms]
        for place, each in found:
            runs = [(run.first_offset, run.last_offset, run.delivery_count) for run in each.acquired_records]
            self.acquired.setdefault(member, []).extend((place, first, last) for first, last, _ in runs)
            batches = iter_batches(memoryview(bytes(each.records))) if each.records else ()
            records = [(record.offset, bytes(record.value or b"")) for one in batches for record in one]
            codes = each.error_code, each.acknowledge_error_code
            if runs or records or any(codes):
                lines.append(repr((place, codes, runs, records)))
        self.note(label, lines)

    def acknowledge(self, member: str, acks: Acks, *, epoch: int | None = None, **fields: Any) -> Any:
        """Acknowledge without a fetch and note the answer."""
        label = f"{member} acknowledges {acks} in {epoch} {fields}"
        epoch = self.session_epochs.get(member, 0) if epoch is None else epoch
        topics: dict[str, AcknowledgeTopic] = {}
        for (name, index), ranges in acks.items():
            topic = topics.setdefault(name, AcknowledgeTopic(topic_id=self._id(name), partitions=[]))
            topic.partitions.append(
                AcknowledgePartition(partition_index=index, acknowledgement_batches=_batches(ranges))
            )
        request = ShareAcknowledgeRequest(
            group_id=self.group_id, member_id=member, share_session_epoch=epoch, topics=list(topics.values()), **fields
        )
        answer = self.client(member).ask(request, 2)
        self.note(label, answer)
        self._went_on(member, epoch, answer.error_code)
        return answer

    # Offsets

    def offsets(self, *places: Place, version: int = 1) -> None:
        """Note the start offsets and lags of partitions, of all if none is named."""
        self.ask("admin", self.offsets_request(*places), version)

    def offsets_request(self, *places: Place) -> DescribeShareGroupOffsetsRequest:
        """The request for them."""
        topics = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=self.topic(name), partitions=[index])
            for name, index in places
        ]
        group = DescribeShareGroupOffsetsRequestGroup(group_id=self.group_id, topics=topics or None)
        return DescribeShareGroupOffsetsRequest(groups=[group])

    def alter(self, offsets: Mapping[Place, int]) -> None:
        """Set start offsets."""
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name=self.topic(name),
                partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)],
            )
            for (name, index), offset in offsets.items()
        ]
        self.ask("admin", AlterShareGroupOffsetsRequest(group_id=self.group_id, topics=topics), 0)

    def forget(self, *topics: str) -> None:
        """Have the group forget topics."""
        named = [DeleteShareGroupOffsetsRequestTopic(topic_name=self.topic(name)) for name in topics]
        self.ask("admin", DeleteShareGroupOffsetsRequest(group_id=self.group_id, topics=named), 0)


def _batches(ranges: Sequence[tuple[int, int, Sequence[int]]]) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in ranges
    ]
