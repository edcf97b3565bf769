"""Requests and responses as people read them: one recording, for the journal and for the lab's page."""
