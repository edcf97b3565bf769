"""What ShareFetch and ShareAcknowledge share: acknowledgements, and the reads of acquired records."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from minibroker.cluster.features import SHARE_VERSION
from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import ForEach, then
from minibroker.coordinators.share_partitions.in_flight import Acknowledgement, AcquisitionRequest, Span
from minibroker.coordinators.share_partitions.sessions import (
    FINAL_EPOCH,
    MemberKey,
    ShareSessionError,
    TopicIdPartition,
)
from minibroker.coordinators.share_partitions.share_partition import SharePartition
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.delayed_read import DelayedRead
from minibroker.server.requests.requirements import check_right
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.messages.current_leader import NodeEndpoint
from minibroker_protocol.messages.share_records import (
    AcknowledgedPartition,
    AcknowledgementBatch,
    AcquiredRecords,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
)
from minibroker_protocol.messages.share_records import PartitionData as FetchedPartition
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import (
    LOG_OVERHEAD,
    MIN_MESSAGE_LENGTH,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    control_type,
    read_entry_header,
)
from minibroker_storage.errors import OffsetOutOfRangeError
from minibroker_storage.files import LogSlice
from minibroker_storage.log import Log
from minibroker_storage.portability import os

_RENEW: Final = 4
_TYPES: Final = frozenset(range(4))
_TYPES_WITH_RENEWAL: Final = _TYPES | {_RENEW}
_FIRST_WITH_RENEWAL: Final = 2
_MAX_MEMBER_ID_LENGTH: Final = 36


def authorization_error(request: ShareFetchRequest | ShareAcknowledgeRequest, call: Call) -> ErrorCode:
    """Return the error if a request names no group, or a group that the client may not read, otherwise NONE."""
    if request.group_id is None:
        return ErrorCode.INVALID_REQUEST
    return check_right(call, Operation.READ, ResourceType.GROUP, request.group_id)


def member_of(request: ShareFetchRequest | ShareAcknowledgeRequest, call: Call) -> MemberKey:
    """Return the member that sent a request.

    Raises:
        ShareSessionError: UNSUPPORTED_VERSION if share groups are off, or INVALID_REQUEST if the group or a valid
            member id is missing.
    """
    group_id, member_id = request.group_id, request.member_id
    if not call.core.features.level(SHARE_VERSION):
        raise ShareSessionError(ErrorCode.UNSUPPORTED_VERSION)
    if group_id is None or not member_id or len(member_id) > _MAX_MEMBER_ID_LENGTH:
        raise ShareSessionError(ErrorCode.INVALID_REQUEST)
    return group_id, member_id


def hint_leader(
    key: TopicIdPartition, data: FetchedPartition | AcknowledgedPartition, call: Call, leaders: dict[int, NodeEndpoint]
) -> None:
    """Add the leader to the result for a client that sent its request to another broker (KIP-951)."""
    if data.error_code == int(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        topic = call.core.topics.with_id(key[0])
        partition = None if topic is None else topic.partition(key[1])
        if partition is not None:
            data.current_leader = call.hint_of(partition, leaders)


def acknowledge(
    request: ShareFetchRequest | ShareAcknowledgeRequest, call: Call, member: MemberKey, conclude: Callable[..., Any]
) -> ForEach[Any]:
    """Apply the acknowledgements of a request partition by partition, and end the member's session if requested.

    Returns:
        Work that results in `conclude(outcomes)`, where `outcomes` has the outcome of each partition.
    """
    batches_by_key = {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }
    if not isinstance(request, ShareAcknowledgeRequest):
        batches_by_key = {key: batches for key, batches in batches_by_key.items() if batches}

    def end(codes: list[ErrorCode]) -> Any:
        outcomes = dict(zip(batches_by_key, codes, strict=True))
        if request.share_session_epoch != FINAL_EPOCH:
            return conclude(outcomes)
        return then(call.services.share_partitions.release(call.node, [member]), lambda _: conclude(outcomes))

    return ForEach(batches_by_key.items(), lambda item: _acknowledge(request, item[0], item[1], call), end)


def _acknowledge(
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    key: TopicIdPartition,
    batches: Sequence[AcknowledgementBatch],
    call: Call,
) -> ErrorCode:
    topic = call.core.topics.with_id(key[0])
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    may_renew = call.api_version >= _FIRST_WITH_RENEWAL and request.is_renew_ack
    acknowledgements = _parse_batches(batches, may_renew=may_renew)
    if acknowledgements is None:
        return ErrorCode.INVALID_REQUEST
    code = check_right(call, Operation.READ, ResourceType.TOPIC, topic.name)
    if code or not batches:
        return code
    manager = call.services.share_partitions
    share_partition = manager.get(SharePartitionKey(request.group_id or "", *key), call.node)
    if share_partition is None or topic.partition(key[1]) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = share_partition.acknowledge(request.member_id or "", acknowledgements)
    if not code:
        manager.metrics.acknowledge(acknowledgements)
    return code


def _parse_batches(batches: Sequence[AcknowledgementBatch], *, may_renew: bool) -> list[Acknowledgement] | None:
    """Return the acknowledgements, or None if they are invalid (`validateAcknowledgementBatches`)."""
    allowed = _TYPES_WITH_RENEWAL if may_renew else _TYPES
    acknowledgements: list[Acknowledgement] = []
    previous_last, previous_type = -1, -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < previous_last or not types:
            return None
        if (len(types) > 1 and last - first != len(types) - 1) or not allowed.issuperset(types):
            return None
        # Skip a second renewal of the record that the previous batch renewed.
        if not (first == last == previous_last and previous_type == types[0] == _RENEW):
            acknowledgements.append(Acknowledgement(first, last, types))
        previous_last, previous_type = last, types[-1]
    return acknowledgements


_STRICT: Final = 1
_HEADS_BYTES: Final = 4096
"""The number of bytes read at a time to get the headers of small batches."""


class _LogRange(NamedTuple):
    """A range of the log from which a member can acquire records."""

    key: TopicIdPartition
    share_partition: SharePartition
    log: Log
    offset: int
    data: LogSlice


class ShareReader:
    """The reads of one ShareFetch, which are repeated until there is enough data.

    Attributes:
        keys: The share-partitions that could be loaded.
        logs: The logs of these share-partitions.
    """

    def __init__(self, request: ShareFetchRequest, call: Call, requested: Sequence[TopicIdPartition]) -> None:
        self._request = request
        self._call = call
        self._requested = requested
        self._unloaded = requested
        self._group_id = request.group_id or ""
        self._manager = call.services.share_partitions
        self._committed = self._manager.limits(self._group_id).reads_committed
        self._usable: dict[TopicIdPartition, tuple[Partition, SharePartition]] = {}
        self._results: dict[TopicIdPartition, PartitionData] = {}
        self._began_ms = call.core.clock.monotonic_ms()
        self.keys: list[SharePartitionKey] = []
        self.logs: list[Log] = []

    def attempt(self, *, is_last: bool) -> ForEach[dict[TopicIdPartition, PartitionData] | None]:
        """Acquire records if there are enough, if this is the last attempt, or if there is nothing to wait for.

        The work results in the partitions of the response, or None.
        """
        unloaded, self._unloaded = self._unloaded, ()
        return ForEach(unloaded, self._load, lambda _: self._read_all(is_last=is_last))

    def _load(self, key: TopicIdPartition) -> Any:
        partition = self._find_partition(key)
        if isinstance(partition, ErrorCode):
            self._results[key] = failed(key[1], partition)
            return None
        loading = self._manager.load(SharePartitionKey(self._group_id, *key), partition)
        return then(loading, lambda loaded: self._add_loaded(key, partition, loaded))

    def _read_all(self, *, is_last: bool) -> ForEach[dict[TopicIdPartition, PartitionData] | None]:
        acquirable = [(key, *usable) for key, usable in self._usable.items() if usable[1].can_acquire]
        is_over = is_last or not self._usable
        self._remaining_bytes = self._call.max_fetch_bytes(self._request.max_bytes)
        self._has_data = False

        def read(usable: tuple[TopicIdPartition, Partition, SharePartition]) -> _LogRange | None:
            return self._read(*usable, self._remaining_bytes // len(acquirable))

        def conclude(read: list[_LogRange | None]) -> ForEach[dict[TopicIdPartition, PartitionData]] | None:
            ranges = [log_range for log_range in read if log_range is not None]
            is_complete = is_over or len(ranges) < len(read) or self._has_enough(ranges)
            if self._usable:
                self._record_metrics(len(ranges), is_complete=is_complete)
            return self._acquire_all(ranges) if is_complete else None

        return ForEach(acquirable, read, conclude)

    def _acquire_all(self, ranges: list[_LogRange]) -> ForEach[dict[TopicIdPartition, PartitionData]]:
        results = dict(self._results)
        remaining = self._request.max_records

        def acquire(log_range: _LogRange) -> None:
            nonlocal remaining
            results[log_range.key], count = self._acquire(log_range, remaining)
            remaining -= count

        return ForEach(ranges, acquire, lambda _: results)

    def _find_partition(self, key: TopicIdPartition) -> Partition | ErrorCode:
        """Return the partition, or an error if the client may not read it or if its broker is not the leader."""
        call = self._call
        topic = call.core.topics.with_id(key[0])
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not call.allows(Operation.READ, ResourceType.TOPIC, topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = topic.partition(key[1])
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return partition if partition.leader is call.node else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _add_loaded(self, key: TopicIdPartition, partition: Partition, loaded: SharePartition | ErrorCode) -> None:
        """Add a loaded share-partition, or add the error of a failed load to the response."""
        code = loaded if isinstance(loaded, ErrorCode) else ErrorCode.NONE
        if not isinstance(loaded, ErrorCode):
            self.keys.append(SharePartitionKey(self._group_id, *key))
            try:
                self.logs.append(partition.log)
                self._usable[key] = partition, loaded
            except MAPPED as error:
                code = error_code_of(error)
        if code:
            self._results[key] = failed(key[1], code)

    def _record_metrics(self, partitions: int, *, is_complete: bool) -> None:
        """Record the time until the acquisition (`DelayedShareFetch`), and the ratio of partitions with records."""
        measured = self._manager.metrics.fetches[self._group_id]
        if partitions or is_complete:
            now_ms = self._call.core.clock.monotonic_ms()
            measured.acquire_ms.add(now_ms - self._began_ms)
            self._began_ms = now_ms
        if is_complete:
            measured.ratio.add(100 * partitions // len(self._requested))

    def _read(
        self, key: TopicIdPartition, partition: Partition, share_partition: SharePartition, limit: int
    ) -> _LogRange | None:
        """Read the range to acquire from. Return None after an error, which ends the wait."""
        if share_partition.is_fenced or partition.leader is not self._call.node:
            self._results[key] = failed(key[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._usable.pop(key, None)
            return None
        try:
            log = partition.log
            offset = share_partition.next_fetch_offset
            end = log.last_stable_offset if self._committed else None
            data = log.read(offset, limit, min_one_batch=not self._has_data, end_offset=end)
        except OffsetOutOfRangeError:
            share_partition.move_start(partition.log.log_start_offset)
            return None
        except MAPPED as error:
            self._results[key] = failed(key[1], error_code_of(error))
            return None
        self._has_data |= data.size > 0
        return _LogRange(key, share_partition, log, offset, data)

    def _has_enough(self, ranges: Iterable[_LogRange]) -> bool:
        min_bytes = min(self._request.min_bytes, self._remaining_bytes)
        readable = 0
        for log_range in ranges:
            if log_range.data.size:
                # One range is enough, so the readable size need not be determined.
                if log_range.data.size >= min_bytes:
                    return True
                end = log_range.log.last_stable_offset if self._committed else None
                size = log_range.log.readable_size(log_range.data, end_offset=end)
                if size is None:
                    return True
                readable += size
        return readable >= min_bytes

    def _acquire(self, log_range: _LogRange, max_records: int) -> tuple[PartitionData, int]:
        """Acquire records of a range. Return the result of the partition and the number of records."""
        request = self._request
        index = log_range.key[1]
        share_partition = log_range.share_partition
        # Other members may have acquired the records below the end, so read `max_records` beyond them.
        below_end = max(share_partition.end_offset + 1 - log_range.offset, 0)
        count = min(below_end + max_records, share_partition.count_acquirable(log_range.offset))
        try:
            batches = _read_batches(log_range.data, log_range.offset, count)
        except MAPPED as error:
            return failed(index, error_code_of(error)), 0
        is_strict = request.share_acquire_mode == _STRICT
        acquisition = AcquisitionRequest(request.member_id or "", max_records, request.batch_size, is_strict)
        acquired = share_partition.acquire(
            acquisition, log_range.offset, [Span(batch.first, batch.last) for batch in batches]
        )
        if acquired and self._committed:
            acquired = share_partition.archive(acquired, self._find_aborted(log_range, batches))
        if not acquired:
            return PartitionData(partition_index=index, error_code=ErrorCode.NONE, acquired_records=[]), 0
        if is_strict:  # Wake the waiting fetches, because the rest of the batch is now available to other members.
            self._manager.wake_fetches(SharePartitionKey(self._group_id, *log_range.key))
        first, last = acquired[0].first, acquired[-1].last
        sent = [batch for batch in batches if batch.first <= last and batch.last >= first]
        begin, end = (sent[0].begin, sent[-1].end) if sent else (0, 0)
        records = log_range.data._replace(position=log_range.data.position + begin, size=end - begin)
        log_range.log.resume_after(records, last + 1)
        spans = [
            AcquiredRecords(first_offset=span.first, last_offset=span.last, delivery_count=span.deliveries)
            for span in acquired
        ]
        data = PartitionData(partition_index=index, error_code=ErrorCode.NONE, records=records, acquired_records=spans)
        return data, sum(span.last - span.first + 1 for span in acquired)

    def _find_aborted(self, log_range: _LogRange, batches: Sequence["_Batch"]) -> list[Span]:
        """Return the batches of aborted transactions (`fetchAbortedTransactionRecordBatches`)."""
        transactions = log_range.log.aborted_transactions(
            log_range.offset, log_range.log.upper_bound_of(log_range.data)
        )
        pending = sorted(((txn.first_offset, txn.producer_id) for txn in transactions), reverse=True)
        aborted: set[int] = set()
        spans: list[Span] = []
        for batch in batches:
            while pending and pending[-1][0] <= batch.last:
                aborted.add(pending.pop()[1])
            header = batch.header
            if header.producer_id not in aborted:
                continue
            if header.is_control:
                marker = log_range.data._replace(
                    position=log_range.data.position + batch.begin, size=batch.end - batch.begin
                )
                records = (
                    record for marker_batch in iter_batches(memoryview(marker.read())) for record in marker_batch
                )
                if any(control_type(record.key)[0] == "ABORT" for record in records):
                    aborted.discard(header.producer_id)
            elif header.is_transactional:
                spans.append(Span(batch.first, batch.last))
        return spans


class _Batch(NamedTuple):
    """A batch of the log: its offsets, and its position in the range, from `begin` to `end`."""

    first: int
    last: int
    begin: int
    end: int
    header: BatchHeader


def _read_batches(data: LogSlice, offset: int, count: int) -> list[_Batch]:
    """Return the complete batches of a range that contain `count` offsets starting at `offset`.

    Raises:
        OSError: The log cannot be read.
    """
    batches: list[_Batch] = []
    position = 0
    chunk, chunk_at = b"", 0
    until = offset + count
    while data.size - position >= LOG_OVERHEAD + MIN_MESSAGE_LENGTH:
        header_at = position - chunk_at
        if header_at + RECORD_BATCH_OVERHEAD > len(chunk):
            size = min(_HEADS_BYTES, data.size - position)
            chunk, chunk_at, header_at = os.pread(data.handle.fd(), size, data.position + position), position, 0
        try:
            header = read_entry_header(chunk, header_at)
        except DecodeError:  # The range ends within a header.
            break
        end = position + LOG_OVERHEAD + header.batch_length
        if end > data.size:
            break
        # Compaction has removed the records between `offset` and this batch, so count from the batch.
        if not batches and header.base_offset > offset:
            until = header.base_offset + count
        last = header.last_offset
        batches.append(_Batch(header.base_offset, last, position, end, header))
        if last >= until:
            break
        position = end
    return batches


def failed(index: int, code: ErrorCode) -> PartitionData:
    """Return the result for a partition that cannot be served."""
    return PartitionData(
        partition_index=index, error_code=code, error_message=code.meaning if code else None, acquired_records=[]
    )


class DelayedShareFetch(DelayedRead):
    """A share fetch that waits for records that its member can acquire (Kafka's `DelayedShareFetch`).

    It waits for appends or released records until a timeout. `answer` builds the response from the acquired records.
    """

    deliver: Callable[[ShareFetchResponse], None]

    def __init__(
        self,
        request: ShareFetchRequest,
        call: Call,
        reader: ShareReader,
        answer: Callable[[Mapping[TopicIdPartition, PartitionData]], ShareFetchResponse],
    ) -> None:
        self._reader = reader
        self._answer = answer
        super().__init__(call, request.max_wait_ms, reader.logs)
        call.services.share_partitions.watch(reader.keys, self.read_soon)

    def _on_end(self) -> None:
        self._call.services.share_partitions.unwatch(self._reader.keys, self.read_soon)

    def _begin(self) -> Any:
        return self._reader.attempt(is_last=self._is_over)

    def _on_read(self, results: dict[TopicIdPartition, PartitionData] | None) -> None:
        self._is_reading = False
        if self._timer is None:
            return
        if results is not None:
            self._stop_waiting()
            self.deliver(self._answer(results))
        elif self._is_over or self._is_scheduled:
            self._call.core.call_soon(self._look)

    def _fail(self, error: Exception) -> None:
        if self._timer is not None:
            self._stop_waiting()
            results = {key[1:]: failed(key[2], ErrorCode.UNKNOWN_SERVER_ERROR) for key in self._reader.keys}
            self.deliver(self._answer(results))
        raise error
