"""The served APIs and their versions, and the outcomes that a request can have on its way."""
