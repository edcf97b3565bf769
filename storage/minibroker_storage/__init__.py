"""One partition's log and its files, in Apache Kafka's own formats, without network or asyncio.

- `log` is a partition's log as clients see it, and rolls to new segments; `local_log` holds its segments, and
  `segment` the files of one of them.
- `segment` writes batches before their index entries, so every index entry points to a complete batch. `index_writer`
  chooses the batches to index. `offset_index`, `time_index` and `transaction_index` are the index files.
- `recovery` loads a log from the files found at start-up.
- `producer_state` detects batches that a producer sent twice, and `producer_snapshot` encodes its file.
- `retention` chooses segments to delete, `cleaner` compacts logs, and `replacement` swaps in the cleaned segments.
- `flush` forces a log to disk; `checkpoints` and `data_directory` read and write the small files.
- `dump`, `explain` and `views` present logs and their files to people.
"""
