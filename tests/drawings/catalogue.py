"""The drawings by file name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.drawings import failures, lives, logs, messages, performance, requests
from tests.drawings.svg import Drawing

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images"
DRAWINGS: Final[Mapping[str, Callable[[], Drawing]]] = {
    "failed-test.svg": failures.failed_test,
    "produce-versions.svg": messages.produce_versions,
    "life-of-a-produce.svg": requests.produce,
    "life-of-a-fetch.svg": requests.fetch,
    "message-formats.svg": messages.message_formats,
    "index-entries.svg": logs.index_entries,
    "life-of-a-transaction.svg": lives.transaction,
    "rebalance-classic.svg": lives.classic_rebalance,
    "rebalance-consumer.svg": lives.consumer_rebalance,
    "performance.svg": performance.beside_others,
}
