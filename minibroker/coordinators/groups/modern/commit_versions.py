"""The versions of requests that members of consumer and streams groups commit offsets with."""

from typing import Final

FIRST_WITH_EPOCHS: Final = 9
"""The first version of OffsetCommit that is made for them."""
FIRST_TRANSACTIONAL_WITH_EPOCHS: Final = 6
"""The first version of TxnOffsetCommit that knows STALE_MEMBER_EPOCH; earlier ones hear ILLEGAL_GENERATION."""
