"""`minibroker trace`: a proxy between Kafka's clients and brokers that shows what passes.

`relay` has the sockets and `proxy` the listening ports. `streams` cuts bytes into frames, `conversation` matches
requests with responses, `reading` decodes both, and `line_writer` shows them. Nothing here knows a broker from within.
"""
