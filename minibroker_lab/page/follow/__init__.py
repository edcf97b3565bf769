"""The history of one record, traced through recorded requests and logs when a user opens it.

- `sightings`: what a single exchange shows about the record.
- `search`: a search of the recorded exchanges. A repeated search for the same record resumes where the last one ended.
- `story`, `stages`: the stages of the record's life, for the page.
- `links`: the positions of records in requests and responses, from which the page links to this view.
"""
