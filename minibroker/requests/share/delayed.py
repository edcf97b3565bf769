"""A share fetch that waits for records that its member can acquire (Kafka's `DelayedShareFetch`)."""

from collections.abc import Callable, Mapping

from minibroker.coordinators.share_partitions.sessions import TopicIdPartition
from minibroker.requests.call import Call
from minibroker.requests.delayed_read import DelayedRead
from minibroker.requests.share.reader import ShareReader, failed
from minibroker.support.slices import Steps, Work, drain
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse


class DelayedShareFetch(DelayedRead):
    """A fetch that waits for appends, for records that are given back, or for its time to be up.

    `answer` makes the response of what a pass of `reader` has acquired.
    """

    deliver: Callable[[ShareFetchResponse], None]

    def __init__(
        self,
        request: ShareFetchRequest,
        call: Call,
        reader: ShareReader,
        answer: Callable[[Mapping[TopicIdPartition, PartitionData]], Steps[ShareFetchResponse]],
    ) -> None:
        self._reader = reader
        self._answer = answer
        super().__init__(call, request.max_wait_ms, reader.logs)
        call.services.share_partitions.watch(reader.keys, self.look_soon)

    def _on_end(self) -> None:
        self._call.services.share_partitions.unwatch(self._reader.keys, self.look_soon)

    def _begin(self) -> ShareFetchResponse | Work[ShareFetchResponse | None] | None:
        return self._call.core.slices.begin(self._attempt())

    def _attempt(self) -> Steps[ShareFetchResponse | None]:
        results = yield from self._reader.attempt(is_last=self._is_over)
        return None if results is None else (yield from self._answer(results))

    def _on_read(self, results: ShareFetchResponse | None) -> None:
        self._is_reading = False
        if self._timer is None:
            return
        if results is not None:
            self._stop_waiting()
            self.deliver(results)
        elif self._is_over or self._woken:
            self._call.core.call_soon(self._look)

    def _fail(self, error: Exception) -> None:
        if self._timer is not None:
            self._stop_waiting()
            results = {key[1:]: failed(key[2], ErrorCode.UNKNOWN_SERVER_ERROR) for key in self._reader.keys}
            self.deliver(drain(self._answer(results)))
        raise error
