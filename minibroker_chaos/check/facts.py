"""What clients have done, as compact facts in the order in which the broker applied it.

An observer of the fault registry writes them down. The records themselves stay in the logs, where a check reads them.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from minibroker.cluster.hooks import FaultHit
from minibroker.server.faults.registry import faults_of
from minibroker.server.inspection.recording import RecordedRequest, recording_of
from minibroker.server.requests.call import Call
from minibroker.server.services import Services
from minibroker_chaos.check.fact_types import (
    Accepted,
    Append,
    Assignment,
    Commit,
    Cut,
    Ended,
    Fact,
    Forgotten,
    Marker,
    Read,
    Refusal,
    Step,
    shown,
)
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.coordinator_records.consumer_protocol import ConsumerProtocolAssignment
from minibroker_protocol.coordinator_records.versioned import decode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_storage.data_directory.names import TopicPartition

if TYPE_CHECKING:
    from minibroker.cluster.partition import Partition

MAX_FACTS: Final = 200_000
"""The maximum number of facts, which take about 40 MB. Later ones are counted, but not kept."""
HEARTBEATS: Final = 3
"""A group that makes no progress for so many heartbeats is stuck."""
_LATEST_TIMESTAMP: Final = -1
_EXPECTED_ERRORS: Final = frozenset({ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED})


F = TypeVar("F", bound=Fact)


class Facts:
    """The facts of one broker.

    Attributes:
        dropped: The number of facts that were not kept.
        knows_commits: Whether no group had committed anything before the first fact.
        starts: The starts of the logs that did not begin at 0 when facts were first kept.
        heartbeats: The ticks of the newest heartbeats of each group, at most `HEARTBEATS` of them.
        violations: What the broker answered and no Kafka cluster would have (`invariants`).
        deleted_to: The starts of logs that DeleteRecords has answered.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        hooks = services.core.hooks
        hooks.marker_written.subscribe(self._on_marker)
        hooks.topics_deleted.subscribe(self._on_topics_deleted)
        hooks.leader_moved.subscribe(self._on_leader_moved)
        hooks.fault_hit.subscribe(self._on_fault)
        hooks.misbehaved.subscribe(self.add_step)
        faults_of(services).add_observer(self.observe)
        self.forget()

    def forget(self) -> None:
        """Begin again, because the broker got another state."""
        self._facts: list[Fact] = []
        self.dropped = 0
        self.knows_commits = self._services.core.topics.get(CONSUMER_OFFSETS) is None
        self.starts = {
            (topic.name, partition.index): log.log_start_offset
            for topic in self._services.core.topics
            for partition in topic.partitions
            if (log := partition.opened_log) is not None and log.log_start_offset
        }
        self.heartbeats: dict[str, deque[int]] = {}
        self.violations: list[str] = []
        self._positions: dict[tuple[str, TopicPartition], int] = {}
        self._sent: dict[tuple[str, TopicPartition], int] = {}
        self._pending: dict[int, list[Commit]] = {}
        self._ends: dict[tuple[TopicPartition, int], int] = {}
        self._appended: dict[TopicPartition, int] = {}
        self.deleted_to: dict[TopicPartition, int] = {}
        self._accepted: dict[tuple[str, TopicPartition], set[int]] = {}
        self._producers: dict[int, tuple[str | None, int]] = {}

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def of(self, kind: type[F]) -> Iterator[F]:
        """Return the facts of a kind, in order."""
        return (fact for fact in self._facts if isinstance(fact, kind))

    def of_topics(self, kind: type[F], topics: Collection[str]) -> Iterator[F]:
        """Return the facts of a kind about partitions of these topics, since each was last created."""
        created = {fact.topic: fact.tick for fact in self.of(Forgotten) if fact.group is None}
        for fact in self.of(kind):
            name = cast("Any", fact).partition[0]
            if name in topics and fact.tick > created.get(name, -1):
                yield fact

    @property
    def producers_expire_before_ms(self) -> int:
        """The broker may forget a producer whose last record is older than this time, in milliseconds."""
        core = self._services.core
        return core.clock.now_ms() - core.config.integer("producer.id.expiration.ms")

    def add_step(self, text: str) -> None:
        """Write down a misbehavior of the broker."""
        self._add(Step, text=text)

    def observe(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:
        """Write down what a request has done."""
        observe = _OBSERVED.get(call.endpoint.route.key)
        if observe is not None:
            observe(self, entry, request, response, call)

    def _add(self, kind: type[F], entry: RecordedRequest | None = None, **fields: Any) -> F:
        arrived = recording_of(self._services).last_number
        number, client = (arrived, "the broker") if entry is None else (entry.number, entry.client_id or "a client")
        fact = kind(tick=len(self._facts), number=number, arrived=arrived, client=client, **fields)
        self._keep(fact)
        return fact

    def _keep(self, fact: Fact) -> None:
        if len(self._facts) < MAX_FACTS:
            self._facts.append(fact)
        else:
            self.dropped += 1

    def _refuse(self, entry: RecordedRequest, subject: str, code: int, call: Call) -> None:
        if code not in _EXPECTED_ERRORS:
            error = ErrorCode(code).name
            self._add(Refusal, entry, subject=subject, api=call.endpoint.api, error=error)

    def _name(self, topic: Any) -> str | None:
        """Return the name of a topic that a message names by name or id."""
        name: str = getattr(topic, "name", "") or getattr(topic, "topic", "")
        if name:
            return name
        known = self._services.core.topics.with_id(topic.topic_id)
        return None if known is None else known.name

    def produced(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:
        """Write down the appends of a Produce request."""
        about = {"acks": request.acks, "transactional_id": request.transactional_id}
        if response is None:
            for topic in request.topic_data:
                for data in topic.partition_data:
                    name = self._name(topic)
                    if name is not None:
                        self._add(Append, entry, partition=(name, data.index), base_offset=-1, **about)
            return
        for topic in response.responses:
            for outcome in topic.partition_responses:
                partition = self._name(topic) or "?", outcome.index
                if outcome.error_code:
                    self._refuse(entry, shown(partition), outcome.error_code, call)
                else:
                    self._appended[partition] = max(outcome.base_offset, self._appended.get(partition, -1))
                    self._add(Append, entry, partition=partition, base_offset=outcome.base_offset, **about)

    def fetched(self, entry: RecordedRequest, request: Any, response: Any, _: Call) -> None:
        """Write down what a Fetch request has read. A session repeats only the positions that have changed."""
        connection = entry.origin.client
        for topic in request.topics:
            name = self._name(topic)
            for wanted in topic.partitions:
                self._positions[connection, (name or "?", wanted.partition)] = wanted.fetch_offset
                if name is not None and wanted.last_fetched_epoch < 0:
                    self._check_range(entry, (name, wanted.partition), wanted.fetch_offset, response)
        for topic in response.responses:
            for data in topic.partitions:
                key = connection, (self._name(topic) or "?", data.partition_index)
                offset = self._positions.get(key)
                if data.records and offset is not None and self._sent.get(key) != offset:
                    self._sent[key] = offset
                    self._add(Read, entry, partition=key[1], offset=offset, connection=connection)

    def _check_range(self, entry: RecordedRequest, partition: TopicPartition, offset: int, response: Any) -> None:
        """Hold OFFSET_OUT_OF_RANGE against the range of the log (invariant I12)."""
        codes = {
            data.error_code
            for topic in response.responses
            for data in topic.partitions
            if (self._name(topic), data.partition_index) == partition
        }
        found = self._services.core.topics.find_partition(*partition)
        if ErrorCode.OFFSET_OUT_OF_RANGE in codes and found is not None:
            log = found.log
            if log.log_start_offset <= offset <= log.log_end_offset:
                self.violations.append(f"I12: request {entry.number} got OFFSET_OUT_OF_RANGE for {offset} of {log}")

    def share_fetched(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:
        """Write down what a share group has acquired and accepted."""
        self.acknowledged(entry, request, response, call)
        for topic in response.responses:
            for data in topic.partitions:
                partition = self._name(topic) or "?", data.partition_index
                accepted = self._accepted.get((request.group_id, partition), set())
                for acquired in data.acquired_records:
                    again = accepted.intersection(range(acquired.first_offset, acquired.last_offset + 1))
                    if again:
                        self.violations.append(
                            f"I25: request {entry.number} acquired {shown(partition)}@{min(again)}, which "
                            f"{request.group_id} has accepted"
                        )
                    self._add(
                        Read,
                        entry,
                        partition=partition,
                        offset=acquired.first_offset,
                        connection=entry.origin.client,
                        member=request.member_id,
                    )

    def acknowledged(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:
        """Write down the records that a share group has accepted."""
        codes = {
            (topic.topic_id, data.partition_index): getattr(data, "acknowledge_error_code", data.error_code)
            for topic in response.responses
            for data in topic.partitions
        }
        for topic in request.topics:
            for wanted in topic.partitions:
                partition = self._name(topic) or "?", wanted.partition_index
                code = codes.get((topic.topic_id, wanted.partition_index), response.error_code)
                if not wanted.acknowledgement_batches:
                    continue
                self._refuse(entry, shown(partition), code, call)
                for batch in () if code else wanted.acknowledgement_batches:
                    for first, last in _accepted_ranges(batch):
                        about = {"group": request.group_id, "partition": partition}
                        self._add(Accepted, entry, first=first, last=last, **about)
                        if not self.dropped:
                            accepted = self._accepted.setdefault((request.group_id, partition), set())
                            accepted.update(range(first, last + 1))

    def committed(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:
        """Write down committed offsets; those of a transaction count when their marker is written."""
        codes = {
            (self._name(topic), outcome.partition_index): outcome.error_code
            for topic in response.topics
            for outcome in topic.partitions
        }
        producer_id = getattr(request, "producer_id", None)
        fault = entry.fault
        for topic in request.topics:
            name = self._name(topic) or "?"
            for part in topic.partitions:
                code = codes.get((name, part.partition_index), ErrorCode.UNKNOWN_SERVER_ERROR)
                if code:
                    self._refuse(entry, request.group_id, code, call)
                    continue
                about: dict[str, Any] = {
                    "group": request.group_id,
                    "partition": (name, part.partition_index),
                    "offset": part.committed_offset,
                    "member": request.member_id,
                    "generation": request.generation_id_or_member_epoch,
                    "connection": entry.origin.client,
                    "is_answered": fault is None or fault.action is None,
                }
                if producer_id is None:
                    self._add(Commit, entry, **about)
                else:
                    about |= {"number": entry.number, "client": entry.client_id or "a client"}
                    commit = Commit(tick=-1, arrived=-1, is_transactional=True, **about)
                    self._pending.setdefault(producer_id, []).append(commit)

    def joined(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:
        """Write down a refused JoinGroup. The assignment follows in SyncGroup."""
        self._refuse(entry, request.group_id, response.error_code, call)

    def synced(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:
        """Write down the partitions of a member in a new generation."""
        self._refuse(entry, request.group_id, response.error_code, call)
        if response.error_code:
            return
        try:
            decoded = decode_versioned(ConsumerProtocolAssignment, response.assignment)
            partitions = tuple((topic.topic, i) for topic in decoded.assigned_partitions for i in topic.partitions)
        except DecodeError:
            partitions = ()
        self._assign(entry, request.group_id, request.member_id, request.generation_id, partitions)

    def _assign(
        self,
        entry: RecordedRequest,
        group: str,
        member: str,
        generation: int,
        partitions: tuple[TopicPartition, ...],
        *,
        is_classic: bool = True,
    ) -> None:
        about: dict[str, Any] = {"group": group, "member": member, "generation": generation, "is_classic": is_classic}
        self._add(Assignment, entry, partitions=partitions, **about)

    def heartbeat(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:
        """Count a heartbeat, and write down its error or the new assignment (KIP-848, KIP-932)."""
        group = request.group_id
        self.heartbeats.setdefault(group, deque(maxlen=HEARTBEATS)).append(len(self._facts))
        self._refuse(entry, group, response.error_code, call)
        assignment = getattr(response, "assignment", None)
        if response.error_code or assignment is None:
            if getattr(request, "member_epoch", 0) < 0:
                self._assign(entry, group, request.member_id, -1, (), is_classic=False)
            return
        partitions = tuple(
            (name, index)
            for topic in assignment.topic_partitions
            if (name := self._name(topic)) is not None
            for index in topic.partitions
        )
        member, epoch = response.member_id or request.member_id, response.member_epoch
        self._assign(entry, group, member, epoch, partitions, is_classic=False)

    def left(self, entry: RecordedRequest, request: Any, response: Any, _: Call) -> None:
        """Write down that members have left a classic group."""
        if not response.error_code:
            for member in [each.member_id for each in request.members] or [request.member_id]:
                self._assign(entry, request.group_id, member, -1, ())

    def ended(self, entry: RecordedRequest, request: Any, response: Any, call: Call) -> None:
        """Write down the end of a transaction."""
        self._refuse(entry, request.transactional_id, response.error_code, call)
        if not response.error_code:
            self._add(
                Ended,
                entry,
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                epoch=request.producer_epoch,
                committed=request.committed,
            )

    def deleted_offsets(self, entry: RecordedRequest, request: Any, response: Any, _: Call) -> None:
        """Write down that an operator deleted committed offsets."""
        for topic in () if response.error_code else request.topics:
            self._add(Forgotten, entry, group=request.group_id, topic=topic.name)

    def deleted_groups(self, entry: RecordedRequest, _: Any, response: Any, call: Call) -> None:
        """Write down that an operator deleted groups."""
        for result in response.results:
            self._refuse(entry, result.group_id, result.error_code, call)
            if not result.error_code:
                self._add(Forgotten, entry, group=result.group_id, topic=None)
                self._forget_accepted(result.group_id)

    def reset_offsets(self, _: RecordedRequest, request: Any, __: Any, ___: Call) -> None:
        """Forget what a share group has accepted, because an operator moved or deleted its offsets."""
        self._forget_accepted(request.group_id)

    def _forget_accepted(self, group: str) -> None:
        for key in [key for key in self._accepted if key[0] == group]:
            del self._accepted[key]

    def deleted_records(self, _: RecordedRequest, __: Any, response: Any, ___: Call) -> None:
        """Write down the answered starts of logs."""
        for topic in response.topics:
            for part in topic.partitions:
                if not part.error_code:
                    self.deleted_to[topic.name, part.partition_index] = part.low_watermark

    def initialized(self, entry: RecordedRequest, request: Any, response: Any, _: Call) -> None:
        """Hold a producer id and epoch against earlier ones (invariant I23)."""
        if response.error_code:
            return
        producer_id, epoch = response.producer_id, response.producer_epoch
        owner, last = self._producers.get(producer_id, (request.transactional_id, -1))
        is_retry = request.producer_id >= 0 and epoch == last  # KIP-360
        if owner != request.transactional_id or (epoch <= last and not is_retry):
            self.violations.append(f"I23: request {entry.number} got producer {producer_id}, epoch {epoch}, again")
        self._producers[producer_id] = request.transactional_id, epoch

    def listed_offsets(self, entry: RecordedRequest, request: Any, response: Any, _: Call) -> None:
        """Hold the answered ends of partitions against earlier ones (invariant I11)."""
        asked = {
            (topic.name, part.partition_index): part.timestamp for topic in request.topics for part in topic.partitions
        }
        for topic in response.topics:
            for part in topic.partitions:
                partition = topic.name, part.partition_index
                if part.error_code or asked.get(partition) != _LATEST_TIMESTAMP:
                    continue
                key = partition, getattr(request, "isolation_level", 0)
                if 0 <= part.offset < self._ends.get(key, 0) and not key[1]:
                    self.violations.append(
                        f"I11: request {entry.number} got {part.offset} as the end of {shown(partition)}, after "
                        f"{self._ends[key]}"
                    )
                self._ends[key] = max(part.offset, self._ends.get(key, 0))

    def _on_marker(self, partition: TopicPartition, producer_id: int, committed: bool) -> None:  # noqa: FBT001 - the hook's arguments
        about: dict[str, Any] = {"partition": partition, "producer_id": producer_id, "committed": committed}
        marker = self._add(Marker, **about)
        if partition[0] != CONSUMER_OFFSETS or not (pending := self._pending.get(producer_id)):
            return
        partition_of = self._services.groups.store.partition_of
        here = [commit for commit in pending if partition_of(commit.group) == partition[1]]
        self._pending[producer_id] = [commit for commit in pending if commit not in here]
        for commit in here if committed else ():
            commit.tick, commit.arrived = len(self._facts), marker.arrived
            self._keep(commit)

    def _on_topics_deleted(self, names: Iterable[str]) -> None:
        for name in names:
            self._add(Forgotten, group=None, topic=name)
            for ends in [key for key in self._ends if key[0][0] == name]:
                del self._ends[ends]
            for partition in [key for key in self._appended if key[0] == name]:
                del self._appended[partition]
            for deleted in [partition for partition in self.deleted_to if partition[0] == name]:
                del self.deleted_to[deleted]
            for accepted in [key for key in self._accepted if key[1][0] == name]:
                del self._accepted[accepted]
            for position in [key for key in self._positions if key[1][0] == name]:
                del self._positions[position]
                self._sent.pop(position, None)

    def _on_leader_moved(self, partition: "Partition") -> None:
        if partition.topic.is_internal:
            return
        key, log = (partition.topic.name, partition.index), partition.opened_log
        self.add_step(f"the leader of {shown(key)} moved")
        if log is not None and log.log_end_offset <= self._appended.get(key, -1):
            self._add(Cut, partition=key, offset=log.log_end_offset)
            self._appended[key] = log.log_end_offset - 1

    def _on_fault(self, hit: FaultHit) -> None:
        about = ", ".join(f"{name}={value}" for name, value in hit.fields().items())
        self.add_step(f"a fault hit {hit.api} of {hit.client_id or 'a client'}: {about}")


def _accepted_ranges(batch: Any) -> Iterator[tuple[int, int]]:
    """Return the ranges of offsets that a batch of acknowledgements accepts, each with its last offset."""
    types = batch.acknowledge_types
    if len(types) == 1:
        if types[0] == 1:
            yield batch.first_offset, batch.last_offset
        return
    for offset, kind in enumerate(types, batch.first_offset):
        if kind == 1:
            yield offset, offset


_OBSERVED: Final[dict[ApiKey, Callable[[Facts, RecordedRequest, Any, Any, Call], None]]] = {
    ApiKey.PRODUCE: Facts.produced,
    ApiKey.FETCH: Facts.fetched,
    ApiKey.SHARE_FETCH: Facts.share_fetched,
    ApiKey.SHARE_ACKNOWLEDGE: Facts.acknowledged,
    ApiKey.OFFSET_COMMIT: Facts.committed,
    ApiKey.TXN_OFFSET_COMMIT: Facts.committed,
    ApiKey.JOIN_GROUP: Facts.joined,
    ApiKey.SYNC_GROUP: Facts.synced,
    ApiKey.HEARTBEAT: Facts.heartbeat,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Facts.heartbeat,
    ApiKey.SHARE_GROUP_HEARTBEAT: Facts.heartbeat,
    ApiKey.LEAVE_GROUP: Facts.left,
    ApiKey.END_TXN: Facts.ended,
    ApiKey.OFFSET_DELETE: Facts.deleted_offsets,
    ApiKey.DELETE_GROUPS: Facts.deleted_groups,
    ApiKey.LIST_OFFSETS: Facts.listed_offsets,
    ApiKey.DELETE_RECORDS: Facts.deleted_records,
    ApiKey.INIT_PRODUCER_ID: Facts.initialized,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Facts.reset_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Facts.reset_offsets,
}


def facts_of(services: Services) -> Facts:
    """Return the facts of a broker, which are kept from the first call on."""
    if services.facts is None:
        services.facts = Facts(services)
    return cast("Facts", services.facts)
