"""The ring of exchanges that have passed through a proxy."""

import asyncio

from minibroker.clock import SystemClock
from minibroker.page.rows import Filter
from minibroker.page.traced import TracedRequests
from minibroker.trace.conversation import Conversation
from tests.patience import PATIENCE_S


class _Silent:
    """A sink that shows nothing, as with --quiet."""

    def begin(self, *_: object) -> None: ...

    def end(self, *_: object) -> None: ...

    def complain(self, text: str) -> None: ...


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


async def test_the_ring_is_bounded_and_says_what_it_has_forgotten() -> None:

    source = TracedRequests(SystemClock(asyncio.get_running_loop()), _Silent(), most_exchanges=10)
    conversation = Conversation("client:1", "broker:2", source, None)
    with source.subscribed() as subscription:
        for number in range(25):
            request = _framed(b"\0\x12\0\0" + number.to_bytes(4, "big") + b"\xff\xff")
            conversation.request(request, len(request))
        assert [source.rows.row(each).state for each in source.between(1, 100)] == ["waiting"] * 10
        response = _framed((20).to_bytes(4, "big") + b"\0\0" + bytes(4))
        conversation.response(response, len(response))
        found = source.find(21)
        assert found is not None
        row = source.rows.row(found)
        assert (row.number, row.api, row.state) == (21, "ApiVersions", "ok")
        assert row.duration_ms is not None
        assert Filter().passes(row)
        assert (source.first, source.last, source.find(15)) == (16, 25, None)
        assert await subscription.next(PATIENCE_S) == list(range(16, 26))
    late = _framed((3).to_bytes(4, "big") + b"\0\0" + bytes(4))
    conversation.response(late, len(late))  # its request has gone
    source.stop()
    assert source.is_over
