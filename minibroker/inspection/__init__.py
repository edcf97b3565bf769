"""Requests and responses as people read them: the journal for tests, the tape of bytes for the lab's page."""
