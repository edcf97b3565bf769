"""What a client may do."""
