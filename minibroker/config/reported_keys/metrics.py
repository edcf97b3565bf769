"""Keys of metrics, and of the Java classes that report them. minibroker's metrics are on its control plane."""

from minibroker.config.keys import BOOLEAN, INT, LIST, LONG, LOW, POSITIVE, REPORTED, STRING, ConfigKey
from minibroker.config.reported_keys.marks import of_kafka_3

# fmt: off
KEYS = (
    ConfigKey("kafka.metrics.polling.interval.secs", INT, 10, POSITIVE, LOW, REPORTED,
              "How often those of kafka.metrics.reporters may look at the metrics."),
    ConfigKey("kafka.metrics.reporters", LIST, [], None, LOW, REPORTED,
              "Java classes that take the metrics of the older kind; there is no JVM here to run them."),
    ConfigKey("metric.reporters", LIST, [], None, LOW, REPORTED,
              "Java classes that take the metrics; Kafka 4 has its own for JMX here."),
    ConfigKey("metrics.num.samples", INT, 2, POSITIVE, LOW, REPORTED,
              "How many windows of time a metric looks back on."),
    ConfigKey("metrics.recording.level", STRING, "INFO", None, LOW, REPORTED,
              "How much is measured: INFO, DEBUG or TRACE."),
    ConfigKey("metrics.sample.window.ms", LONG, 30_000, POSITIVE, LOW, REPORTED,
              "How long each of those windows is."),
    *of_kafka_3(
        ConfigKey("auto.include.jmx.reporter", BOOLEAN, True, None, LOW, REPORTED,
                  "Whether metrics are in JMX also where metric.reporters does not say so."),
    ),
)
# fmt: on
