"""`minibroker grade`: checks any Kafka broker from the outside.

Each stage is a module of `stages`, and each check is a function in it. The expected behavior is Kafka's, written by
hand: the checks import only the protocol codec and nothing from the broker.
"""
