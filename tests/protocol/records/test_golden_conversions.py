"""Conversions of Kafka 3.9.1, of produced and fetched sets: bytes from its `LogValidator` and its `downConvert`.

The broker's time is 1000 throughout, the first offset of an append 2**33 + 5.
"""

from typing import NamedTuple

import pytest

from minibroker_protocol.records.header import MAGIC_V2, CompressionCodec, TimestampType, stamp
from minibroker_protocol.records.log_validator import AppendPolicy, prepare
from tests.protocol.records.converting import down_converted

BASE_OFFSET = 2**33 + 5
KAFKAS_LEADER_EPOCH = 0


class Golden(NamedTuple):
    name: str
    policy: AppendPolicy
    produced: str
    appended: str
    max_timestamp: int
    in_place: bool


VALIDATED = [
    Golden(
        "a v2 batch stays",
        AppendPolicy(),
        (
            "000000000000000000000046ffffffff02830e99f900000000000100000000000003b600000000000003ca00000000000000"
            "070001000000040000000218000000026b027602026802780e00280201027700"
        ),
        (
            "0000000200000005000000460000000002830e99f900000000000100000000000003b600000000000003ca00000000000000"
            "070001000000040000000218000000026b027602026802780e00280201027700"
        ),
        max_timestamp=970,
        in_place=True,
    ),
    Golden(
        "a v2 batch's highest timestamp is put right",
        AppendPolicy(),
        (
            "000000000000000000000046ffffffff02b49cad1900000000000100000000000003b6000000000000006300000000000000"
            "070001000000040000000218000000026b027602026802780e00280201027700"
        ),
        (
            "0000000200000005000000460000000002830e99f900000000000100000000000003b600000000000003ca00000000000000"
            "070001000000040000000218000000026b027602026802780e00280201027700"
        ),
        max_timestamp=970,
        in_place=True,
    ),
    Golden(
        "a v2 batch gets the broker's time",
        AppendPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME),
        (
            "000000000000000000000046ffffffff02830e99f900000000000100000000000003b600000000000003ca00000000000000"
            "070001000000040000000218000000026b027602026802780e00280201027700"
        ),
        (
            "000000020000000500000046000000000259199a7e00080000000100000000000003b600000000000003e800000000000000"
            "070001000000040000000218000000026b027602026802780e00280201027700"
        ),
        max_timestamp=1000,
        in_place=True,
    ),
    Golden(
        "a compressed v2 batch gets the broker's time",
        AppendPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME),
        (
            "000000000000000000000056ffffffff0218c093d300010000000100000000000003b600000000000003caffffffffffffff"
            "ffffffffffffff000000021f8b08000000000000ff1360606060ca662a63e063d060622a6464000037648d2611000000"
        ),
        (
            "0000000200000005000000560000000002da647f0200090000000100000000000003b600000000000003e8ffffffffffffff"
            "ffffffffffffff000000021f8b08000000000000ff1360606060ca662a63e063d060622a6464000037648d2611000000"
        ),
        max_timestamp=1000,
        in_place=True,
    ),
    Golden(
        "a v2 batch that claims the broker's time loses it",
        AppendPolicy(),
        (
            "000000000000000000000042ffffffff0267bda38d00080000000100000000000003b6000000000000004dffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00280202710100"
        ),
        (
            "0000000200000005000000420000000002825a978900000000000100000000000003b6000000000000004dffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00280202710100"
        ),
        max_timestamp=77,
        in_place=True,
    ),
    Golden(
        "a compressed v2 batch is decompressed",
        AppendPolicy(codec=CompressionCodec.NONE),
        (
            "000000000000000000000056ffffffff0218c093d300010000000100000000000003b600000000000003caffffffffffffff"
            "ffffffffffffff000000021f8b08000000000000ff1360606060ca662a63e063d060622a6464000037648d2611000000"
        ),
        (
            "00000002000000050000004200000000028f6b21c300000000000100000000000003b600000000000003caffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00280202710100"
        ),
        max_timestamp=970,
        in_place=False,
    ),
    Golden(
        "plain v1 messages are numbered",
        AppendPolicy(magic=1),
        (
            "000000000000000000000018ce2bd79e010000000000000003b6000000016b00000001760000000000000001000000172ac0"
            "8b67010000000000000003ca0000000171ffffffff"
        ),
        (
            "000000020000000500000018ce2bd79e010000000000000003b6000000016b00000001760000000200000006000000172ac0"
            "8b67010000000000000003ca0000000171ffffffff"
        ),
        max_timestamp=970,
        in_place=True,
    ),
    Golden(
        "plain v1 messages get the broker's time",
        AppendPolicy(magic=1, timestamp_type=TimestampType.LOG_APPEND_TIME),
        (
            "000000000000000000000018ce2bd79e010000000000000003b6000000016b00000001760000000000000001000000172ac0"
            "8b67010000000000000003ca0000000171ffffffff"
        ),
        (
            "000000020000000500000018ed423c39010800000000000003e8000000016b00000001760000000200000006000000177639"
            "f686010800000000000003e80000000171ffffffff"
        ),
        max_timestamp=1000,
        in_place=True,
    ),
    Golden(
        "a v1 wrapper is numbered",
        AppendPolicy(magic=1),
        (
            "00000000000000010000004f163c5aa2010100000000000003caffffffff000000391f8b08000000000000ff636080038973"
            "dad7e7314239ccdb800463368828830a81a4c4b50e74a7c3d59c028916fe070200891f661e47000000"
        ),
        (
            "00000002000000060000004f163c5aa2010100000000000003caffffffff000000391f8b08000000000000ff636080038973"
            "dad7e7314239ccdb800463368828830a81a4c4b50e74a7c3d59c028916fe070200891f661e47000000"
        ),
        max_timestamp=970,
        in_place=True,
    ),
    Golden(
        "a v1 wrapper gets the broker's time",
        AppendPolicy(magic=1, timestamp_type=TimestampType.LOG_APPEND_TIME),
        (
            "00000000000000010000004f163c5aa2010100000000000003caffffffff000000391f8b08000000000000ff636080038973"
            "dad7e7314239ccdb800463368828830a81a4c4b50e74a7c3d59c028916fe070200891f661e47000000"
        ),
        (
            "00000002000000060000004f592d9bac010900000000000003e8ffffffff000000391f8b08000000000000ff636080038973"
            "dad7e7314239ccdb800463368828830a81a4c4b50e74a7c3d59c028916fe070200891f661e47000000"
        ),
        max_timestamp=1000,
        in_place=True,
    ),
    Golden(
        "a v1 wrapper becomes plain messages",
        AppendPolicy(magic=1, codec=CompressionCodec.NONE, timestamp_type=TimestampType.LOG_APPEND_TIME),
        (
            "00000000000000010000004f163c5aa2010100000000000003caffffffff000000391f8b08000000000000ff636080038973"
            "dad7e7314239ccdb800463368828830a81a4c4b50e74a7c3d59c028916fe070200891f661e47000000"
        ),
        (
            "000000020000000500000018ed423c39010800000000000003e8000000016b00000001760000000200000006000000177639"
            "f686010800000000000003e80000000171ffffffff"
        ),
        max_timestamp=1000,
        in_place=False,
    ),
    Golden(
        "plain v0 messages are numbered",
        AppendPolicy(magic=0),
        (
            "0000000000000000000000101fecd70a0000000000016b000000017600000000000000010000000fbad28bd5000000000001"
            "71ffffffff"
        ),
        (
            "0000000200000005000000101fecd70a0000000000016b000000017600000002000000060000000fbad28bd5000000000001"
            "71ffffffff"
        ),
        max_timestamp=-1,
        in_place=True,
    ),
    Golden(
        "plain v0 messages become v1",
        AppendPolicy(magic=1),
        (
            "0000000000000000000000101fecd70a0000000000016b000000017600000000000000010000000fbad28bd5000000000001"
            "71ffffffff"
        ),
        (
            "000000020000000500000018b82b07240100ffffffffffffffff000000016b00000001760000000200000006000000171a24"
            "c4310100ffffffffffffffff0000000171ffffffff"
        ),
        max_timestamp=-1,
        in_place=False,
    ),
    Golden(
        "plain v0 messages become v1 with the broker's time",
        AppendPolicy(magic=1, timestamp_type=TimestampType.LOG_APPEND_TIME),
        (
            "0000000000000000000000101fecd70a0000000000016b000000017600000000000000010000000fbad28bd5000000000001"
            "71ffffffff"
        ),
        (
            "000000020000000500000018ed423c39010800000000000003e8000000016b00000001760000000200000006000000177639"
            "f686010800000000000003e80000000171ffffffff"
        ),
        max_timestamp=1000,
        in_place=False,
    ),
    Golden(
        "plain v0 messages become one v2 batch",
        AppendPolicy(),
        (
            "0000000000000000000000101fecd70a0000000000016b000000017600000000000000010000000fbad28bd5000000000001"
            "71ffffffff"
        ),
        (
            "0000000200000005000000420000000002d4957303000000000001ffffffffffffffffffffffffffffffffffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00000202710100"
        ),
        max_timestamp=-1,
        in_place=False,
    ),
    Golden(
        "plain v1 messages become v0",
        AppendPolicy(magic=0),
        (
            "000000000000000000000018ce2bd79e010000000000000003b6000000016b00000001760000000000000001000000172ac0"
            "8b67010000000000000003ca0000000171ffffffff"
        ),
        (
            "0000000200000005000000101fecd70a0000000000016b000000017600000002000000060000000fbad28bd5000000000001"
            "71ffffffff"
        ),
        max_timestamp=-1,
        in_place=False,
    ),
    Golden(
        "plain v1 messages become one v2 batch",
        AppendPolicy(),
        (
            "000000000000000000000018ce2bd79e010000000000000003b6000000016b00000001760000000000000001000000172ac0"
            "8b67010000000000000003ca0000000171ffffffff"
        ),
        (
            "00000002000000050000004200000000028f6b21c300000000000100000000000003b600000000000003caffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00280202710100"
        ),
        max_timestamp=970,
        in_place=False,
    ),
    Golden(
        "plain v1 messages become one v2 batch with the broker's time",
        AppendPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME),
        (
            "000000000000000000000018ce2bd79e010000000000000003b6000000016b00000001760000000000000001000000172ac0"
            "8b67010000000000000003ca0000000171ffffffff"
        ),
        (
            "000000020000000500000042000000000268eb231900080000000100000000000003b600000000000003e8ffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00280202710100"
        ),
        max_timestamp=1000,
        in_place=False,
    ),
    Golden(
        "a v1 wrapper becomes one v2 batch",
        AppendPolicy(codec=CompressionCodec.NONE),
        (
            "00000000000000010000004f163c5aa2010100000000000003caffffffff000000391f8b08000000000000ff636080038973"
            "dad7e7314239ccdb800463368828830a81a4c4b50e74a7c3d59c028916fe070200891f661e47000000"
        ),
        (
            "00000002000000050000004200000000028f6b21c300000000000100000000000003b600000000000003caffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00280202710100"
        ),
        max_timestamp=970,
        in_place=False,
    ),
    Golden(
        "a v0 wrapper becomes one v2 batch",
        AppendPolicy(codec=CompressionCodec.NONE),
        (
            "000000000000000100000040f507806e0001ffffffff000000321f8b08000000000000ff6360800301f937d7b9c02cc66c10"
            "510615670462fe5d97baaf427885ff81000035e2dcf337000000"
        ),
        (
            "0000000200000005000000420000000002d4957303000000000001ffffffffffffffffffffffffffffffffffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00000202710100"
        ),
        max_timestamp=-1,
        in_place=False,
    ),
    Golden(
        "a v2 batch becomes plain v1 messages",
        AppendPolicy(magic=1),
        (
            "000000000000000000000042ffffffff028f6b21c300000000000100000000000003b600000000000003caffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00280202710100"
        ),
        (
            "000000020000000500000018ce2bd79e010000000000000003b6000000016b00000001760000000200000006000000172ac0"
            "8b67010000000000000003ca0000000171ffffffff"
        ),
        max_timestamp=970,
        in_place=False,
    ),
    Golden(
        "a v2 batch becomes plain v0 messages",
        AppendPolicy(magic=0),
        (
            "000000000000000000000042ffffffff028f6b21c300000000000100000000000003b600000000000003caffffffffffffff"
            "ffffffffffffff0000000210000000026b0276000e00280202710100"
        ),
        (
            "0000000200000005000000101fecd70a0000000000016b000000017600000002000000060000000fbad28bd5000000000001"
            "71ffffffff"
        ),
        max_timestamp=-1,
        in_place=False,
    ),
]


@pytest.mark.parametrize("golden", VALIDATED, ids=[golden.name for golden in VALIDATED])
def test_a_produced_set_becomes_what_kafka_appends(golden: Golden) -> None:
    produced = bytearray.fromhex(golden.produced)
    prepared = prepare(memoryview(produced), golden.policy, base_offset=BASE_OFFSET, now_ms=1000)
    appended = bytearray(prepared.data)
    if prepared.header.magic == MAGIC_V2:
        stamp(appended, BASE_OFFSET, KAFKAS_LEADER_EPOCH)
    assert appended.hex() == golden.appended
    assert prepared.max_timestamp == golden.max_timestamp
    assert (prepared.first_offset, prepared.last_offset) == (BASE_OFFSET, BASE_OFFSET + 1)
    assert prepared.record_count == 2
    assert isinstance(prepared.data, memoryview) is golden.in_place
    if golden.in_place:
        assert prepared.data == produced


# Format v2 with headers, v2 with gaps in its offsets, a transaction marker, a v1 message, v2 under LOG_APPEND_TIME.
LOG = (
    "000000000000002800000046ffffffff0269626eb300000000000100000000000003b600000000000003caffffffffffffff"
    "ffffffffffffff0000000218000000026b027602026802780e00280201027700000000000000002a00000042ffffffff0222"
    "1f00d600000000000300000000000003b600000000000003caffffffffffffffffffffffffffff0000000210000000026b02"
    "76000e00280602710100000000000000002e00000042ffffffff02902eb47a00200000000000000000000003c00000000000"
    "0003c00000000000000003000000000000000000012000000008000000010c00000000000000000000000000002f00000018"
    "b4611f44010000000000000003d4000000016f0000000170000000000000003000000042ffffffff0268eb23190008000000"
    "0100000000000003b600000000000003e8ffffffffffffffffffffffffffff0000000210000000026b0276000e0028020271"
    "0100"
)
DOWN_CONVERTED = {
    (0, 0): (
        "0000000000000028000000101fecd70a0000000000016b000000017600000000000000290000000fa50b8f630000ffffffff"
        "0000000177000000000000002a000000101fecd70a0000000000016b0000000176000000000000002d0000000fbad28bd500"
        "000000000171ffffffff000000000000002f000000106d1e30290000000000016f0000000170000000000000003000000010"
        "1fecd70a0000000000016b000000017600000000000000310000000fbad28bd500000000000171ffffffff"
    ),
    (0, 41): (
        "00000000000000290000000fa50b8f630000ffffffff0000000177000000000000002a000000101fecd70a0000000000016b"
        "0000000176000000000000002d0000000fbad28bd500000000000171ffffffff000000000000002f000000106d1e30290000"
        "000000016f00000001700000000000000030000000101fecd70a0000000000016b000000017600000000000000310000000f"
        "bad28bd500000000000171ffffffff"
    ),
    (1, 0): (
        "000000000000002800000018ce2bd79e010000000000000003b6000000016b00000001760000000000000029000000173519"
        "8fd1010000000000000003caffffffff0000000177000000000000002a00000018ce2bd79e010000000000000003b6000000"
        "016b0000000176000000000000002d000000172ac08b67010000000000000003ca0000000171ffffffff000000000000002f"
        "00000018b4611f44010000000000000003d4000000016f0000000170000000000000003000000018ed423c39010800000000"
        "000003e8000000016b00000001760000000000000031000000177639f686010800000000000003e80000000171ffffffff"
    ),
    (1, 41): (
        "00000000000000290000001735198fd1010000000000000003caffffffff0000000177000000000000002a00000018ce2bd7"
        "9e010000000000000003b6000000016b0000000176000000000000002d000000172ac08b67010000000000000003ca000000"
        "0171ffffffff000000000000002f00000018b4611f44010000000000000003d4000000016f00000001700000000000000030"
        "00000018ed423c39010800000000000003e8000000016b00000001760000000000000031000000177639f686010800000000"
        "000003e80000000171ffffffff"
    ),
}


@pytest.mark.parametrize(("magic", "first_offset"), list(DOWN_CONVERTED))
def test_a_log_of_several_formats_is_converted_as_kafka_does_it(magic: int, first_offset: int) -> None:
    converted = down_converted(bytes.fromhex(LOG), magic, first_offset, max_bytes=10_000)
    assert converted.hex() == DOWN_CONVERTED[magic, first_offset]
