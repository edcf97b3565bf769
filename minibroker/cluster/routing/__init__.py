"""Request routing: `routes` is the table of APIs, and `outcomes` defines the possible outcomes of a request."""
