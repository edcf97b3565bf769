"""The way of a request from its bytes to its handler, and the vocabulary in which handlers declare their APIs."""
