"""UUIDs: as Kafka writes them."""

import pytest

from minibroker_protocol.uuids import new_uuid, parse_uuid, uuid_text


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert uuid_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(b"\xff" * 16) == "_" * 21 + "w"
    for _ in range(300):
        uuid = new_uuid()
        text = uuid_text(uuid)
        assert (len(text), parse_uuid(text)) == (22, uuid)
        assert not text.startswith("-")


@pytest.mark.parametrize(
    "text", ["", "short", "A" * 21, "A" * 23, "A" * 24, "!" * 22, "AAAAAAAAAAAAAAAAAAAAAQ==", "ä" * 22]
)
def test_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_uuid(text)
