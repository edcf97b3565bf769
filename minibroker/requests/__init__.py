"""The way of a request: what APIs declare of their requests, and what is made of it."""
