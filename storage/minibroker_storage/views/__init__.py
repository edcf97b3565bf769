"""Presents a log to people: its segments, batches and index entries, and explained look-ups.

- `snapshot`: a log at one moment (`log_view`), a page of its batches (`batch_page`), entries of its indexes
  (`offset_entries`, `time_entries`), its producers and aborted transactions.
- `look_ups`: the steps that find an offset (`find_offset`) or a time (`find_time`), with this log's numbers.

Views only read the log. Long results are split into pages.
"""
