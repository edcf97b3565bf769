"""Which way each entry of a log goes: copied, compressed again, or written again from its records."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.jobs.convert.settings import ConvertSettings
from minibroker_protocol.records.header import CONTROL_FLAG, DELETE_HORIZON_FLAG, MAGIC_V2, TRANSACTIONAL_FLAG

COPY: Final = 0
REPACK: Final = 1
"""The records' bytes stay, under another codec or level."""
REBUILD: Final = 2


class Ways(NamedTuple):
    """Of each entry: its way, and the format and codec (numbers) that it will have."""

    way: NDArray[np.int64]
    magic: NDArray[np.int64]
    codec: NDArray[np.int64]

    def runs(self, headers: NDArray[Any], lines: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """These lines, in pieces that go the same way, to one format, from records that are all plain or all packed."""
        kind = self.way[lines] << 4 | self.magic[lines] << 1 | (headers["codec"][lines] != 0)
        return np.split(lines, np.flatnonzero(np.diff(kind)) + 1) if len(lines) else []


def ways_of(headers: NDArray[Any], settings: ConvertSettings | None) -> Ways:
    """The ways of the entries with these headers; without settings all are copied."""
    own_magic, own_codec = headers["magic"].astype(np.int64), headers["codec"].astype(np.int64)
    if settings is None:
        return Ways(np.full(len(headers), COPY), own_magic, own_codec)
    magic = own_magic if settings.magic is None else np.full(len(headers), settings.magic)
    codec = own_codec if settings.codec_id is None else np.full(len(headers), settings.codec_id)
    is_v2 = own_magic == MAGIC_V2
    attributes = headers["attributes"]
    is_other_codec = (codec != own_codec) | (np.bool_(settings.level is not None) & (codec != 0))
    is_rebatched = np.bool_(settings.batch_bytes is not None)
    is_free = (headers["producer_id"] < 0) & (attributes & _KEPT_WHOLE == 0)
    has_records = is_v2 & (headers["record_count"] > 0) & (attributes & CONTROL_FLAG == 0)
    is_single = ~is_v2 & (own_codec == 0)
    is_wrapper = ~is_v2 & (own_codec != 0)
    is_rebuilt = (
        (magic != own_magic)
        | (is_single & (codec != 0))
        | (is_wrapper & ((codec == 0) | is_rebatched))
        | (has_records & is_free & is_rebatched)
    )
    is_repacked = is_other_codec & (has_records | is_wrapper)
    way = np.where(is_rebuilt, REBUILD, np.where(is_repacked, REPACK, COPY))
    return Ways(way.astype(np.int64), magic, codec)


_KEPT_WHOLE: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG
"""Attributes of batches whose records mean something together: they are neither joined nor split."""
