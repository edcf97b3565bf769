"""The logs of a broker: how they are opened, written and closed, and the chores that are done to them.

- `log_manager` opens and closes logs; `write_group` writes the appends of a wake-up, and wakes delayed fetches.
- `flusher` brings logs to disk. `chores` runs retention, `checkpoint_chores`, and the compaction of `log_cleaner`.
- `down_conversion` serves clients that know older message formats only.
"""
