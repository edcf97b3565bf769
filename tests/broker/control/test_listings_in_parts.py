"""Lists are sent in parts by the control plane."""

import json
from typing import Any, cast

import pytest
from starlette.responses import StreamingResponse

from minibroker_control.models import ResponseBody, list_response


class Listing(ResponseBody):
    """A body with a list and another field."""

    count: int
    elements: list[int]


class Bare(ResponseBody):
    """A body with only a list."""

    elements: list[int]


@pytest.mark.parametrize("count", [0, 1, 2, 100, 101, 1000])
@pytest.mark.parametrize(
    "about", [Listing(count=7, elements=[]), Bare(elements=[])], ids=lambda about: type(about).__name__
)
async def test_a_list_is_sent_in_parts(about: ResponseBody, count: int) -> None:
    answer = list_response(about, "elements", [b"%d" % number for number in range(count)])
    assert isinstance(answer, StreamingResponse)
    parts = [chunk async for chunk in cast("Any", answer.body_iterator)]
    body = b"".join(parts)
    assert json.loads(body) == {**about.model_dump(), "elements": list(range(count))}
    assert answer.headers["Content-Length"] == str(len(body))
    assert max(map(len, parts)) < 500
