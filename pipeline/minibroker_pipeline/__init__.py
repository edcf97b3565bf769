"""Kafka logs as tables: a Spark data source, a sink, and jobs that work on log files or brokers.

`decode` turns the bytes of log files into Arrow data without creating an object per record, and does not need Spark.
"""
