"""One module per API, each with `handle(request, call)`.

The semantics, and a card that says what is served and what is not.
"""
