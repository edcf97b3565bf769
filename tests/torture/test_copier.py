"""A copier whose client misleads it, which no client does on demand."""

import json
from collections.abc import Iterable

import pytest
from confluent_kafka import Message

from tests.torture.copier import Copier, MisledError

ARGUMENTS = ["127.0.0.1:1", "group", "in", "out", "id", "10", "1000", "30000", "0", "1"]


class Script:
    """A consumer that gives the records of partition 0 at these offsets, and then none."""

    def __init__(self, offsets: Iterable[int]) -> None:
        self._messages = [Message(topic="in", partition=0, offset=offset, value=b"") for offset in offsets]

    def poll(self, timeout: float) -> Message | None:
        """The next record."""
        del timeout
        return self._messages.pop(0) if self._messages else None


@pytest.mark.parametrize("offsets", [(0, 1, 2, 0), (0, 1, 1), (0, 2)])
def test_a_copier_says_that_its_client_gives_records_out_of_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], offsets: tuple[int, ...]
) -> None:
    copier = Copier(ARGUMENTS)
    monkeypatch.setattr(copier, "_consumer", Script(offsets))
    with pytest.raises(MisledError):
        copier._poll()
    expected = offsets[-2] + 1
    assert json.loads(capsys.readouterr().out) == {
        "event": "misled",
        "partition": 0,
        "offset": offsets[-1],
        "expected": expected,
    }


def test_a_copier_takes_what_its_client_gives_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    copier = Copier(ARGUMENTS)
    monkeypatch.setattr(copier, "_consumer", Script((5, 6, 7)))
    copier._poll()
    assert [message.offset() for message in copier._batch] == [5, 6, 7]
