"""Authorization of clients."""
