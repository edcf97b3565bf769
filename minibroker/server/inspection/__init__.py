"""The recording of requests and responses, for the journal and for the lab's page."""
