"""What a cluster knows of itself: its brokers, its topics and who leads what, its features, what has been altered."""
