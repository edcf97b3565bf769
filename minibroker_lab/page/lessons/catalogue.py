"""The ten lessons."""

from __future__ import annotations

from typing import Final

from minibroker_lab.page.lessons import clients, records, requests
from minibroker_lab.page.lessons.lesson import Lesson

LESSONS: Final = (
    Lesson(1, "1-requests", "A request is bytes", requests.A_REQUEST_IS_BYTES),
    Lesson(2, "2-producing", "Producing", requests.PRODUCING),
    Lesson(3, "3-finding", "Finding an offset", records.FINDING),
    Lesson(4, "4-fetching", "Fetching", requests.FETCHING),
    Lesson(5, "5-groups", "Groups", clients.GROUPS),
    Lesson(6, "6-offsets", "Offsets", clients.OFFSETS),
    Lesson(7, "7-idempotence", "Idempotence", records.IDEMPOTENCE),
    Lesson(8, "8-transactions", "Transactions", records.TRANSACTIONS),
    Lesson(9, "9-retention", "Retention and compaction", records.RETENTION),
    Lesson(10, "10-failure", "Failure", clients.FAILURE),
)
