"""The journal: requests and responses as people read them."""
