"""The history of one record, traced through recorded requests and logs when a user opens it.

- `sightings`: what a single exchange shows about the record, and the positions of records in requests and responses,
  from which the page links to this view.
- `story`: the search of the recorded exchanges, and the stages of the record's life, for the page. A repeated search
  for the same record resumes where the last one ended.
"""
