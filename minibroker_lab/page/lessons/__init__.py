"""The course: lessons with goals that the lab verifies on the learner's own broker.

- `lesson`: what a lesson and a goal are.
- `look`: what goals look at: the requests of clients, and logs, groups and transactions of the broker.
- `requests`, `records`, `clients`: the goals, by their subject.
- `deliveries`: which consumers have got which records.
- `catalogue`: the ten lessons.
- `texts`: their pages, which the documentation has, too.
- `progress`: the goals that were reached, kept in the data directory.
"""
