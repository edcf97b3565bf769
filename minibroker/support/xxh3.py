"""The hash function XXH3, with 64 bits and the seed 0, by its specification (`doc/xxhash_spec.md` of xxHash).

Kafka stores this hash of topics. A few of them are hashed when they change, so that no library is worth its weight:
some 10 us for 100 bytes, 3 ms for 64 KiB.
"""

import struct
from typing import Final

_MASK: Final = (1 << 64) - 1
_LOW: Final = (1 << 32) - 1
_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_PRIME_MX1: Final = 0x165667919E3779F9
_PRIME_MX2: Final = 0x9FB21C651E98DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_SECRET_STEP: Final = 8
_STRIPES_OF_BLOCK: Final = (len(_SECRET) - _STRIPE) // _SECRET_STEP
_BLOCK: Final = _STRIPE * _STRIPES_OF_BLOCK
_LAST_SECRET: Final = len(_SECRET) - _STRIPE - 7
_MERGE_SECRET: Final = 11
_LEAST_OF_LAST_PART: Final = 136
_LANES: Final = struct.Struct("<8Q")
_SECRETS: Final = [_LANES.unpack_from(_SECRET, _SECRET_STEP * number) for number in range(_STRIPES_OF_BLOCK)]
_SCRAMBLING: Final = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)


def xxh3_64(data: bytes) -> int:
    """The hash of bytes: 64 bits, unsigned."""
    size = len(data)
    return next(hashed for least, hashed in _BY_SIZE if size >= least)(data)


def _of_none(_data: bytes) -> int:
    return _old_avalanche(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _of_1_to_3(data: bytes) -> int:
    size = len(data)
    combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
    return _old_avalanche(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))


def _of_4_to_8(data: bytes) -> int:
    size = len(data)
    mixed = _u32(data, size - 4) + (_u32(data, 0) << 32) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
    mixed ^= (mixed << 49 | mixed >> 15) & _MASK ^ (mixed << 24 | mixed >> 40) & _MASK
    mixed = mixed * _PRIME_MX2 & _MASK
    mixed ^= (mixed >> 35) + size
    mixed = mixed * _PRIME_MX2 & _MASK
    return mixed ^ mixed >> 28


def _of_9_to_16(data: bytes) -> int:
    size = len(data)
    low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
    high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
    return _avalanche((size + _swapped(low) + high + _folded(low, high)) & _MASK)


def _of_17_to_128(data: bytes) -> int:
    size = len(data)
    sum_ = size * _PRIME64_1
    for pair in range((size - 1) // 32 + 1):
        sum_ += _mixed(data, 16 * pair, 32 * pair) + _mixed(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(sum_ & _MASK)


def _of_129_to_240(data: bytes) -> int:
    size = len(data)
    sum_ = size * _PRIME64_1
    for number in range(8):
        sum_ += _mixed(data, 16 * number, 16 * number)
    sum_ = _avalanche(sum_ & _MASK)
    for number in range(8, size // 16):
        sum_ += _mixed(data, 16 * number, 16 * (number - 8) + 3)
    return _avalanche(sum_ + _mixed(data, size - 16, _LEAST_OF_LAST_PART - 17) & _MASK)


def _of_more(data: bytes) -> int:
    lanes = [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1,
    ]  # fmt: skip
    size = len(data)
    last = (size - 1) // _BLOCK * _BLOCK
    for start in range(0, last, _BLOCK):
        for number, secret in enumerate(_SECRETS):
            _accumulate(lanes, _LANES.unpack_from(data, start + _STRIPE * number), secret)
        for index, key in enumerate(_SCRAMBLING):
            lane = lanes[index]
            lanes[index] = (lane ^ lane >> 47 ^ key) * _PRIME32_1 & _MASK
    for number in range((size - 1 - last) // _STRIPE):
        _accumulate(lanes, _LANES.unpack_from(data, last + _STRIPE * number), _SECRETS[number])
    _accumulate(lanes, _LANES.unpack_from(data, size - _STRIPE), _LANES.unpack_from(_SECRET, _LAST_SECRET))
    merged = size * _PRIME64_1
    for index in range(0, 8, 2):
        at = _MERGE_SECRET + 8 * index
        merged += _folded(lanes[index] ^ _u64(_SECRET, at), lanes[index + 1] ^ _u64(_SECRET, at + 8))
    return _avalanche(merged & _MASK)


def _accumulate(lanes: list[int], values: tuple[int, ...], secret: tuple[int, ...]) -> None:
    for index, value in enumerate(values):
        keyed = value ^ secret[index]
        lanes[index ^ 1] = lanes[index ^ 1] + value & _MASK
        lanes[index] = lanes[index] + (keyed & _LOW) * (keyed >> 32) & _MASK


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    return _folded(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _folded(one: int, other: int) -> int:
    product = one * other
    return product & _MASK ^ product >> 64


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _PRIME_MX1 & _MASK
    return value ^ value >> 32


def _old_avalanche(value: int) -> int:
    """That of XXH64, which the shortest input has."""
    value ^= value >> 33
    value = value * _PRIME64_2 & _MASK
    value ^= value >> 29
    value = value * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _swapped(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


_BY_SIZE: Final = (
    (241, _of_more),
    (129, _of_129_to_240),
    (17, _of_17_to_128),
    (9, _of_9_to_16),
    (4, _of_4_to_8),
    (1, _of_1_to_3),
    (0, _of_none),
)
"""The least number of bytes that each function is for."""
