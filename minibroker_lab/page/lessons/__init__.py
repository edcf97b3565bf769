"""The course: lessons with goals that the lab checks on the learner's own broker.

- `lesson`: the types of lessons and goals, and the goals reached so far, saved in the data directory.
- `evidence`: the data that goals check: client requests, and the broker's events, logs and groups.
- `requests`, `records`, `clients`, `schemas`: the goals by subject. `clients` finds the records that each consumer
  received.
- `texts`: the eleven lessons and their pages, which are also part of the documentation.
"""
