"""Fetch requests: their reads and their waits (`DelayedFetch`). Sessions are in `minibroker.cluster.fetch_sessions`."""
