"""Python versions of Kafka's command line tools, such as `kafka-topics` and `kafka-console-producer`, without a JVM.

The tools use the codec of `minibroker_protocol` over blocking sockets. They work with any Kafka broker, Apache Kafka
included.
"""
