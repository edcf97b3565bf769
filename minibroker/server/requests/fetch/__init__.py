"""Fetch requests: reads (`reader`) and waiting (`delayed`).

Fetch sessions are in `minibroker.cluster.fetch_sessions`.
"""
