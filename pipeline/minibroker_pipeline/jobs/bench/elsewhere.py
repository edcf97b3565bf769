"""Topics on a broker that is not ours, made and deleted with the client that Spark's connector brings along."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def topics_on(spark: "SparkSession", bootstrap: str, names: Sequence[str], partitions: int) -> Generator[None]:
    """The topics, with one replica, until the end of the `with` statement. What goes wrong is Kafka's, through Py4J."""
    java: Any = spark.sparkContext._jvm  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - there is no other way to a class of Java
    properties = java.java.util.HashMap()
    properties.put("bootstrap.servers", bootstrap)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        topics = [java.org.apache.kafka.clients.admin.NewTopic(name, partitions, 1) for name in names]
        admin.createTopics(java.java.util.ArrayList(topics)).all().get()
        try:
            yield
        finally:
            admin.deleteTopics(java.java.util.ArrayList(list(names))).all().get()
    finally:
        admin.close()
