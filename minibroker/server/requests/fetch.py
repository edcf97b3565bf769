"""The log reads of a Fetch request, the partitions of its response, and the wait for enough bytes.

This is one file of more than 500 lines because reads, partitions and wait share the limits of the request.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from minibroker.cluster.fetch_sessions import FetchContext, FetchKey, FetchSession
from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import ForEach, catch_errors, then
from minibroker.cluster.topics import Topic
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.delayed_read import DelayedRead
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages.current_leader import NodeEndpoint
from minibroker_protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minibroker_protocol.records.header import NO_OFFSET
from minibroker_protocol.schema import first_version
from minibroker_storage.files import LogSlice
from minibroker_storage.log import Log

with lazy:
    from minibroker.cluster.logs import down_conversion


FIRST_WITH_V2: Final = 4
"""The first version whose clients read message format v2, and so all formats."""
_FIRST_WITH_A_WHOLE_BATCH: Final = first_version(FetchRequest, "max_bytes")
FIRST_WITH_ZSTD: Final = 10
_FIRST_OF_KAFKA_4: Final = 4
"""The first version served by Kafka 4, which no longer protects old consumers from zstd."""
_FIRST_FROM_FOLLOWERS: Final = first_version(FetchRequest, "rack_id")
FIRST_WITH_IDS: Final = first_version(FetchTopic, "topic_id")
_FIRST_WITH_LEADERS: Final = first_version(FetchResponse, "node_endpoints")
_HINTED_ERRORS: Final = frozenset({int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH)})
_ZSTD: Final = "zstd"
READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
_NOTHING: Final = b""
_NOT_FAILURES: Final = frozenset(
    {
        int(ErrorCode.NONE),
        int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        int(ErrorCode.UNKNOWN_TOPIC_ID),
        int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    }
)


class Reader:
    """The reads of one fetch, which can be repeated.

    Attributes:
        readable: The number of partitions that could be read.
        logs: The logs of these partitions.
    """

    def __init__(self, request: FetchRequest, call: Call, context: FetchContext) -> None:
        self._request = request
        self._call = call
        self._context = context
        self._names: dict[bytes, str] = {}
        self._replica = max(request.replica_id, request.replica_state.replica_id)
        # Only consumers can be redirected to a replica in their rack (KIP-392).
        self._rack = request.rack_id if call.services.prefers_racks and self._replica < 0 else ""
        self._ranges: list[tuple[Log, LogSlice, FetchPartition]] = []
        self.logs: list[Log] = []
        self.readable = 0

    @property
    def limits(self) -> str:
        """A text for people with the minimum number of bytes and the time that the client waits for."""
        min_bytes = self._request.min_bytes
        return f"at least {min_bytes} {'byte' if min_bytes == 1 else 'bytes'}, at most {self._request.max_wait_ms} ms"

    def open_log(self, key: FetchKey) -> None:
        """Open the log of a partition, which may take a millisecond."""
        partition = self._find_partition(key)
        if partition is not None and partition.opened_log is None:
            with suppress(*MAPPED):  # The error is ignored here, because the read will raise it again and report it.
                _ = partition.log

    def read(self) -> dict[FetchKey, PartitionData]:
        """Read every partition that may have changed, and update the attributes."""
        context = self._context
        self.readable = 0
        self._size = 0
        self._failed = False
        self._ranges.clear()
        self.logs.clear()
        self._remaining_bytes = self._call.max_fetch_bytes(self._request.max_bytes)
        self._min_bytes = min(self._request.min_bytes, self._remaining_bytes)
        if context.incremental and context.session is not None:
            return self._read_session(context.session)
        return {key: self._read(key, requested) for key, requested in context.partitions.items()}

    def _read_session(self, session: FetchSession) -> dict[FetchKey, PartitionData]:
        """Read the partitions of a session, except those that have nothing new for the consumer.

        The client's rights, the racks of replicas, and the protection of old consumers can change without a change
        of the partition.
        """
        results: dict[FetchKey, PartitionData] = {}
        call, node = self._call, self._call.node
        may_skip = not (call.services.authorizer is not None or self._rack or self._replica >= 0)
        is_protected = call.api_version < FIRST_WITH_ZSTD
        for key, entry in session.partitions.items():
            requested, partition = entry.request, entry.partition
            if partition is not None and may_skip:
                log = partition.opened_log
                if (
                    log is not None
                    and log.high_watermark == entry.high_watermark == requested.fetch_offset
                    and log.log_start_offset == entry.log_start_offset
                    and partition.leader is node
                    and requested.current_leader_epoch in {-1, partition.leader_epoch}
                    and not partition.topic.is_gone
                    and not (is_protected and _is_zstd(partition.topic))
                ):
                    self.readable += 1
                    self.logs.append(log)
                    continue
            data = results[key] = self._read(key, requested)
            entry.partition = None if data.error_code else self._find_partition(key)
        return results

    def _read(self, key: FetchKey, requested: FetchPartition) -> PartitionData:
        """Read one partition within the remaining limits of the request."""
        topic = self._find_topic(key[0])
        if self._call.services.authorizer is not None and not self._may_read(key[0] if topic is None else topic.name):
            return build_failed_partition(key[1], ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        data = self._unknown_topic(key) if topic is None else self._read_existing(topic, requested)
        records = data.records
        size = records.size if isinstance(records, LogSlice) else 0
        self._size += size
        self._remaining_bytes = max(0, self._remaining_bytes - size)
        if data.error_code not in _NOT_FAILURES or data.preferred_read_replica >= 0:
            self._failed = True
        return data

    def remember_names(self) -> None:
        """Remember the names of topics requested by id, because the topics may be deleted while the request waits."""
        if self._call.api_version < FIRST_WITH_IDS or self._context.session is not None:
            return
        for topic_key, _ in self._context.keys:
            topic = self._find_topic(topic_key)
            if isinstance(topic_key, bytes) and topic is not None:
                self._names[topic_key] = topic.name

    def has_enough(self) -> bool:
        """Return whether to answer immediately.

        At least `min_bytes`, or as much as the limits allow, are enough. So is a read from a segment older than the
        one at the log end, because one read covers only one segment. A partition with an error ends the wait, too.
        As in Kafka, a partition that is missing or that the client may not read does not.
        """
        if self._failed or self._size >= self._min_bytes:
            return True
        committed = self._request.isolation_level == READ_COMMITTED
        readable = 0
        for log, log_slice, requested in self._ranges:
            if log_slice.size:
                size = log.readable_size(log_slice, end_offset=log.last_stable_offset if committed else None)
                if size is None:
                    return True
                readable += min(size, requested.partition_max_bytes)
        return readable >= self._min_bytes

    def _may_read(self, topic_key: str | bytes) -> bool:
        """Return whether the client may read a topic. True for an unknown id, which is not a secret."""
        call = self._call
        if self._replica >= 0:
            return call.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return isinstance(topic_key, bytes) or call.allows(Operation.READ, ResourceType.TOPIC, topic_key)

    def _find_topic(self, topic_key: str | bytes) -> Topic | None:
        topics = self._call.core.topics
        return topics.get(topic_key) if isinstance(topic_key, str) else topics.with_id(topic_key)

    def _find_partition(self, key: FetchKey) -> Partition | None:
        topic = self._find_topic(key[0])
        return None if topic is None else topic.partition(key[1])

    def _unknown_topic(self, key: FetchKey) -> PartitionData:
        """Return the result for a partition whose topic does not exist or was deleted."""
        topic_key, index = key
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not isinstance(topic_key, str):
            session = self._context.session
            names = self._names if session is None or session.names is None else session.names
            name = names.get(topic_key)
            if name is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            elif self._call.core.topics.get(name) is not None:
                code = ErrorCode.INCONSISTENT_TOPIC_ID
        return build_failed_partition(index, code)

    def convert_and_answer(self, results: dict[FetchKey, PartitionData]) -> ForEach[Any]:
        """Return the response with records converted for clients before version 4, which have no fetch sessions."""

        def convert(read: tuple[FetchKey, PartitionData]) -> Any:
            key, data = read
            return self._convert(key, data, data.records) if isinstance(data.records, LogSlice) else data

        return ForEach(
            tuple(results.items()), convert, lambda partitions: self.answer(dict(zip(results, partitions, strict=True)))
        )

    def answer(self, results: dict[FetchKey, PartitionData]) -> FetchResponse:
        """Return the response. It is empty for a client that is over its quota."""
        # As in Kafka's `IncrementalFetchContext`, fail if a newer fetch of the session has arrived.
        if self._context.is_outdated:
            code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            return FetchResponse(error_code=code, session_id=self._context.session_id, responses=[])
        topics: list[FetchableTopicResponse] = []
        leaders: dict[int, NodeEndpoint] = {}
        for key, data in self._context.select(_move_refused_last(results)).items():
            topic = key[0]
            if data.error_code and data.error_code in _HINTED_ERRORS and self._call.api_version >= _FIRST_WITH_LEADERS:
                partition = self._find_partition(key)
                if partition is not None:
                    data.current_leader = self._call.hint_of(partition, leaders)
            last_topic = topics[-1] if topics else None
            if last_topic is not None and topic in (last_topic.topic, last_topic.topic_id):
                last_topic.partitions.append(data)
            elif isinstance(topic, str):
                topics.append(FetchableTopicResponse(topic=topic, partitions=[data]))
            else:
                name = existing.name if (existing := self._find_topic(topic)) is not None else ""
                topics.append(FetchableTopicResponse(topic=name, topic_id=topic, partitions=[data]))
        response = FetchResponse(session_id=self._context.session_id, responses=topics)
        if leaders:
            response.node_endpoints = list(leaders.values())
        call = self._call
        if self._size and call.services.works_around_clients:
            call.session.waited_fetches = 0
        quotas = call.services.quotas
        if quotas is None:
            return response
        return quotas.charge_fetch(response, self._request, call.session, call.client_id, call.api_version)

    def _convert(self, key: FetchKey, data: PartitionData, log_slice: LogSlice) -> Any:
        """Return the result for a client that cannot read v2, or work that produces it."""
        requested = self._context.partitions[key]
        partition = self._find_partition(key)
        if partition is None:
            return build_failed_partition(requested.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

        def convert() -> Any:
            conversion = down_conversion.convert_records(
                partition.log,
                log_slice,
                requested.fetch_offset,
                requested.partition_max_bytes,
                self._call.api_version,
                allowed=partition.topic.config.boolean("message.downconversion.enable"),
            )
            return then(self._call.core.slices.large(conversion), add_records)

        def add_records(records: bytes | bytearray | None) -> PartitionData:
            if records is None:
                return build_failed_partition(requested.partition, ErrorCode.UNSUPPORTED_VERSION)
            data.records = records
            return data

        return catch_errors(
            convert, MAPPED, lambda error: build_failed_partition(requested.partition, error_code_of(error))
        )

    def _find_redirect(self, requested: FetchPartition, partition: Partition, log: Log) -> PartitionData | None:
        """Return the result for a reader that has a nearer replica or a last epoch that ended (KIP-595), or None."""
        end, preferred = EpochEndOffset(), None
        if self._rack and partition.leader is self._call.node:
            preferred = self._preferred_replica(partition, log, requested.fetch_offset)
            self.readable += preferred is not None
        if preferred is None and requested.last_fetched_epoch >= 0 and log.log_start_offset <= requested.fetch_offset:
            epoch, offset = partition.end_of_epoch(requested.last_fetched_epoch)
            if epoch < 0 or offset < 0:
                return build_failed_partition(requested.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < requested.last_fetched_epoch or offset < requested.fetch_offset:
                end = EpochEndOffset(epoch=epoch, end_offset=offset)
                self._failed = True
        if preferred is None and end.epoch < 0:
            return None
        return PartitionData(
            partition_index=requested.partition,
            error_code=ErrorCode.NONE,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=end,
            aborted_transactions=None,
            preferred_read_replica=-1 if preferred is None else preferred,
            records=_NOTHING,
        )

    def _find_error(self, requested: FetchPartition, partition: Partition | None) -> ErrorCode:
        """Return the error if this node cannot serve the client of the fetch, or NONE."""
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node, epoch = self._call.node, requested.current_leader_epoch
        if partition.leader is not node or 0 <= epoch != partition.leader_epoch:
            leader_only = self._call.api_version < _FIRST_FROM_FOLLOWERS
            error = partition.access_error(node, max(epoch, -1), leader_only=leader_only)
            if error:
                return error
        is_foreign_replica = self._replica >= 0 and self._replica not in partition.replicas
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_foreign_replica else ErrorCode.NONE

    def _read_existing(self, topic: Topic, requested: FetchPartition) -> PartitionData:
        partition = topic.partition(requested.partition)
        refusal = self._find_error(requested, partition)
        if partition is None or refusal:
            return build_failed_partition(requested.partition, refusal)
        try:
            log = partition.log
            data = self._find_redirect(requested, partition, log)
            if data is not None:
                return data
            stable = log.last_stable_offset
            version = self._call.api_version
            committed = self._request.isolation_level == READ_COMMITTED
            limit = min(requested.partition_max_bytes, self._remaining_bytes)
            whole = version >= _FIRST_WITH_A_WHOLE_BATCH
            log_slice = log.read(
                requested.fetch_offset,
                limit,
                min_one_batch=whole and self._size == 0,
                end_offset=stable if committed else None,
            )
            end = stable if committed else log.high_watermark
            if limit < 0 and requested.fetch_offset < end:
                # As in Kafka, a negative size limit is an error if there are records to read.
                return build_failed_partition(requested.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            records: LogSlice | bytes = log_slice if log_slice.size else _NOTHING
            aborted = _find_aborted(log, requested.fetch_offset, log_slice) if committed else None
            if whole and self._size and 0 < log_slice.size == limit and not log_slice.begins_with_a_whole_batch():
                records, aborted = _NOTHING, None
        except MAPPED as error:
            return build_failed_partition(requested.partition, error_code_of(error))
        if (
            version < FIRST_WITH_ZSTD
            and _is_zstd(topic)
            and (version < _FIRST_OF_KAFKA_4 or self._call.services.is_before("4.0"))
        ):
            return build_failed_partition(requested.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        self.readable += 1
        self.logs.append(log)
        self._ranges.append((log, log_slice, requested))
        return PartitionData(
            partition_index=requested.partition,
            error_code=0,
            high_watermark=log.high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    def _preferred_replica(self, partition: Partition, log: Log, offset: int) -> int | None:
        """Return the replica in the consumer's rack, or None for the leader (`RackAwareReplicaSelector`)."""
        racks = self._call.core.cluster.racks
        is_known = log.log_start_offset <= offset <= log.log_end_offset
        near = [node_id for node_id in partition.isr if racks.get(node_id) == self._rack]
        is_leader_near = self._call.node.id in near
        # Among replicas that are equally caught up, Kafka prefers the highest id.
        return max(near) if near and is_known and not is_leader_near else None


def _move_refused_last(results: dict[FetchKey, PartitionData]) -> dict[FetchKey, PartitionData]:
    """Return the results in Kafka's order, with missing and forbidden partitions last."""
    last = {key: data for key, data in results.items() if data.error_code and data.error_code in _NOT_FAILURES}
    return {key: data for key, data in results.items() if key not in last} | last if last else results


def _find_aborted(log: Log, offset: int, log_slice: LogSlice) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap the data to send. Additional, later transactions do no harm."""
    if not log_slice.size:
        return []
    return [
        AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
        for transaction in log.aborted_transactions(offset, log.upper_bound_of(log_slice))
    ]


def build_failed_partition(index: int, code: ErrorCode) -> PartitionData:
    """Return the result for a partition that cannot be read."""
    data = build_refused_partition(index, code)
    # Kafka returns null after a failed read. With the other codes, Kafka has not tried to read the log.
    if code not in _NOT_FAILURES:
        data.aborted_transactions = None
    return data


def build_refused_partition(index: int, code: ErrorCode) -> PartitionData:
    """Return the result for a partition of a fetch that is refused as a whole."""
    return PartitionData(
        partition_index=index, error_code=code, high_watermark=NO_OFFSET, aborted_transactions=[], records=_NOTHING
    )


def _is_zstd(topic: Topic) -> bool:
    return topic.config.text("compression.type") == _ZSTD


_MAX_NAMED_LOGS: Final = 5
_UNSETTLED_EPOCHS: Final = range(3)
_UNSETTLED_WAIT_MS: Final = 30
_MIN_WAIT_MS: Final = 50
_MAX_LOGS_AHEAD_OF_PRODUCER: Final = 8


def _wait_ms(request: FetchRequest, call: Call, context: FetchContext) -> int:
    """Return the maximum time for which a fetch waits for appends, in milliseconds.

    The first fetches of a session often lack partitions whose offsets the client is still looking up. The client
    adds them to its next fetch, which has to wait until the current one is answered. Also, many clients close only
    after their pending fetch. After each record, waits therefore start short and double until they reach the time
    that the client allows.
    """
    wait_ms, session = request.max_wait_ms, call.session
    if not call.services.works_around_clients:
        return wait_ms
    if context.session is not None and request.session_epoch in _UNSETTLED_EPOCHS:
        wait_ms = min(wait_ms, _UNSETTLED_WAIT_MS)
    if session.waited_fetches is not None:
        short_ms = _MIN_WAIT_MS << session.waited_fetches
        if short_ms < wait_ms:
            wait_ms = short_ms
            session.waited_fetches += 1
    return wait_ms


class DelayedFetch(DelayedRead):
    """A fetch that waits for appends to its partitions until a timeout. `reader` has already read once."""

    deliver: Callable[[FetchResponse], None]

    def __init__(self, request: FetchRequest, call: Call, reader: Reader, context: FetchContext) -> None:
        self._context = context
        self._reader = reader
        self._readable = reader.readable
        self._is_gone = False
        reader.remember_names()
        super().__init__(call, _wait_ms(request, call, context), reader.logs)

    def cancel(self) -> None:
        """Cancel the fetch because its client disconnected."""
        self._is_gone = True
        super().cancel()

    def waits_for(self) -> str:
        """Return what the fetch waits for, see `DelayedResponse`."""
        logs = tuple(self._logs)
        names = [os.path.basename(log.directory) for log in logs[:_MAX_NAMED_LOGS]]
        remainder = f" and {len(logs) - _MAX_NAMED_LOGS} more" if len(logs) > _MAX_NAMED_LOGS else ""
        return f"appends to {', '.join(names)}{remainder}: {self._reader.limits}"

    def _schedule(self) -> None:
        """Schedule a read after this wake-up's appends are written.

        A fetch of many partitions is read in the event loop's next turn instead.
        """
        core = self._call.core
        # A few logs are read before the producer gets its response. Reading more logs would delay that response.
        if len(self._logs) <= _MAX_LOGS_AHEAD_OF_PRODUCER:
            core.writes.wakeups.add(self._look)
        else:
            core.call_soon(self._look)

    def _begin(self) -> dict[FetchKey, PartitionData]:
        return self._reader.read()

    def _on_read(self, results: dict[FetchKey, PartitionData]) -> None:
        self._is_reading = False
        reader = self._reader
        # The timeout expired or the client disconnected while the read ran in slices.
        if self._timer is None:
            return
        # Also respond immediately if a partition has become readable or unreadable.
        if self._is_over or reader.has_enough() or reader.readable != self._readable:
            self._answer(results)
            return
        # The topic may have been created again, with new logs.
        self.listen([log for log in reader.logs if log not in self._logs])

    def _answer(self, results: dict[FetchKey, PartitionData]) -> None:
        self._stop_waiting()
        if self._call.api_version >= FIRST_WITH_V2:
            self.deliver(self._reader.answer(results))
            return
        self._call.core.slices.run(self._reader.convert_and_answer(results), self._deliver_unless_gone, self._fail)

    def _deliver_unless_gone(self, response: FetchResponse) -> None:
        if not self._is_gone:
            self.deliver(response)

    def _fail(self, error: Exception) -> None:
        """Answer with an error that makes the client retry, and pass the exception to the event loop, which logs it."""
        failed = {key: build_failed_partition(key[1], ErrorCode.UNKNOWN_SERVER_ERROR) for key in self._context.keys}
        self._stop_waiting()
        self._deliver_unless_gone(self._reader.answer(failed))
        raise error
