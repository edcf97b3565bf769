"""The logs of a broker: opening, writing, closing and maintenance.

- `log_manager` opens and closes logs. `write_group` writes the appends of a wake-up and resumes delayed fetches.
- `flusher` forces logs to disk. `chores` schedules maintenance: retention, the checkpoints of `checkpoint_chores` and
  the compaction of `log_cleaner`.
- `down_conversion` serves clients that only support older message formats.
"""
