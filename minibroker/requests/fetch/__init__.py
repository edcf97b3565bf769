"""Fetch requests: the log reads of a session or of a whole request."""
