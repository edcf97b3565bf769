"""One partition's log and its files, in Apache Kafka's own formats. No network, no asyncio.

- `log` is a partition's log as clients see it; `local_log` has its bytes, `segments` and `segment` its files.
- `segment` writes batches before their index entries: this is what makes an entry true. `index_writer` chooses the
  batches, and `offset_index`, `time_index` and `transaction_index` are the files.
- `recovery` makes a log of the files that a start finds.
- `producer_state` recognizes batches that a producer repeats; `producer_snapshot` is its file.
- `retention` chooses segments to delete, `cleaner` compacts, `replacement` swaps segments for cleaned ones.
- `flush` brings a log to disk; `checkpoints` and `data_directory` have the small files.
- `dump`, `explain` and `views` show all this to people.
"""
