"""Fetch requests: reads (`reader`), waits (`delayed`), and the short way with its template (`repeated`).

Sessions are in `minibroker.cluster.fetch_sessions`.
"""
