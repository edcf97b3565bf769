"""The meanings of fields: each belongs to an existing field, and every declared field has one."""

import re

from minibroker_protocol import primitives as p
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.fields.frames import request_fields
from minibroker_protocol.fields.meanings import KIP_OF_MODULE, KIPS, MEANINGS, first_versions, meaning_of, meanings_json
from minibroker_protocol.fields.structures import declaration_path
from minibroker_protocol.messages import MODULES, messages_of
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.schema import fields_of, schema_of
from tests.documented import ROOT
from tests.protocol.fields.test_frames import request_frame
from tests.protocol.message_strategies import all_classes
from tests.storage.helpers import marker


def places(cls: type) -> set[str]:
    """Return the places of all fields of a message and its structures."""
    found: set[str] = set()
    for field in fields_of(cls):
        found.add(f"{declaration_path(cls)}.{field.name}")
        if not isinstance(field.kind, p.WireType):
            found |= places(field.kind)
    return found


def all_places() -> set[str]:
    """Return the places of all fields of all messages and stored records, and of their versions."""
    classes = all_classes()
    return {f"{declaration_path(cls)}.version" for cls in classes}.union(*map(places, classes))


def test_no_name_has_two_sentences() -> None:
    table = ROOT / "protocol" / "minibroker_protocol" / "fields" / "meanings.tsv"
    assert len(MEANINGS) == len(table.read_text(encoding="utf-8").splitlines())


def test_each_field_has_a_sentence() -> None:
    assert sorted(place for cls in all_classes() for place in places(cls) if meaning_of(place) is None) == []


def test_each_field_that_came_later_names_a_kip() -> None:
    without = {
        f"{api}.{version}"
        for api in KIPS
        for place, version in first_versions(api).items()
        if (found := meaning_of(place)) is not None and found.kip is None
    }
    oldest = {f"{api}.0" for api, kips in KIPS.items() if 0 not in kips}
    # These came with KAFKA-5291 and, before KIPs existed, with KAFKA-1634 and the offsets stored by brokers.
    assert without - oldest == {"metadata.4", "offset_commit.1", "offset_commit.2"}


def test_each_version_with_a_kip_exists() -> None:
    assert {cls.__module__.rpartition(".")[2] for cls in all_classes()} | {"current_leader"} >= KIP_OF_MODULE.keys()
    assert KIPS.keys() == {key.name.lower() for key in MODULES}
    for api, kips in KIPS.items():
        assert all(30 < kip < 1400 or kip in {2, 4} for kip in kips.values()), api
        assert max(kips) <= schema_of(messages_of(ApiKey[api.upper()]).request).versions.last, api


def test_a_sentence_is_short_and_ends() -> None:
    for key, meaning in MEANINGS.items():
        assert re.fullmatch(r"[A-Z0-9].{5,117}[.]", meaning.text), (key, meaning.text)
        assert meaning.kip is None or 30 < meaning.kip < 1400, key


def produce(records: bytes) -> bytes:
    partition = PartitionProduceData(index=0, records=records)
    topics = [TopicProduceData(name="t", partition_data=[partition])]
    return request_frame(0, 9, ProduceRequest(acks=-1, timeout_ms=5, topic_data=topics))


def test_each_field_of_headers_batches_and_messages_has_a_sentence_and_each_sentence_has_a_field() -> None:
    records = [NewRecord(b"k", b"v", 1000, (("h", b"x"),))]
    sets = [
        *(bytes(build_batch(records, codec=codec)) for codec in (CompressionCodec.NONE, CompressionCodec.GZIP)),
        bytes(marker().view),
        *(
            bytes(build_message_set([NewRecord(b"k", b"v", 1000)], magic=magic, codec=codec))
            for magic in (0, 1)
            for codec in (CompressionCodec.NONE, CompressionCodec.GZIP)
        ),
    ]
    seen: set[str] = set()
    for each in sets:
        root = request_fields(produce(each))
        for node in root.all_nodes():
            seen.add(node.about)
            if node.type not in {"STRUCT", "TEXT"} and node.name != "(content)":
                assert meaning_of(node.about or node.name), node
    ends = {".".join(place.split(".")[begin:]) for place in all_places() for begin in range(3)}
    assert {key for key in MEANINGS if not key.startswith(("(", "ResponseHeader"))} - seen - ends == set()


def test_the_meanings_of_a_tree_are_those_of_its_fields() -> None:
    found = meanings_json(request_fields(produce(b"")))
    assert found["produce.ProduceRequest.acks"]["text"].startswith("0 requests no response")
    assert found["produce.ProduceRequest.transactional_id"]["kip"] == 98
    assert "(length)" in found
    assert "fetch.FetchRequest.max_bytes" not in found


def test_the_same_name_may_mean_something_else_in_another_message() -> None:
    fetched, asked = meaning_of("fetch.PartitionData.high_watermark"), meaning_of("fetch.FetchPartition.high_watermark")
    assert fetched is not None
    assert asked is not None
    assert (fetched.kip, asked.kip) == (None, 1166)
    assert meaning_of("fetch.PartitionData.no_such_field") is None
