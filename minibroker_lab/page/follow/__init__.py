"""One record followed through recorded requests and logs, on request.

- `sightings`: what a single exchange says of the record.
- `search`: all recorded exchanges, as far as they have not been looked through for this record before.
- `story`, `stages`: the life of the record in stages, for the page.
- `links`: where in a request or a response the records are, so that the page can lead here.
"""
