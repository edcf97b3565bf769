"""Request routing: `routes` is the table of APIs, `outcomes` has the outcomes of requests."""
