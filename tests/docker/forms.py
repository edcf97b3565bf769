"""The health checks and tool commands of real Compose files and CI services, each with what the image answers.

They were found in 255 public files. A form that fails on purpose names a text of its output, and the reason.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Form:
    """A command of a container, run by `/bin/sh -c`.

    Attributes:
        command: as the files have it.
        shows: a text in its output, on either stream.
        fails: the reason why it does not pass here; None for a form that passes.
    """

    command: str
    shows: str = ""
    fails: str | None = None


NO_JVM: Final = "no JVM runs here"

HEALTH_CHECKS: Final = (
    Form("kafka-broker-api-versions --bootstrap-server localhost:9092", "ApiVersions(18)"),
    Form("/usr/bin/kafka-broker-api-versions --bootstrap-server kafka:9092", "ApiVersions(18)"),
    Form("kafka-broker-api-versions.sh --bootstrap-server kafka:9092 > /dev/null 2>&1 || exit 1"),
    Form("kafka-broker-api-versions.sh --version"),
    Form("/opt/kafka_2.13-2.8.1/bin/kafka-broker-api-versions.sh --bootstrap-server localhost:9092", "ApiVersions(18)"),
    Form("/opt/kafka_2.12-2.5.0/bin/kafka-topics.sh --list --bootstrap-server localhost:9092", "orders"),
    Form("$KAFKA_HOME/bin/kafka-topics.sh --list --bootstrap-server localhost:9092", "orders"),
    Form("kafka-topics --bootstrap-server localhost:9092 --list", "orders"),
    Form("kafka-topics --bootstrap-server kafka:9092 --list || exit 1", "orders"),
    Form("kafka-topics.sh --list --bootstrap-server :9092", "orders"),
    Form("kafka-topics.sh --bootstrap-server localhost:9092 --list | grep -q orders"),
    Form("kafka-topics --list --zookeeper zookeeper:2181", "orders"),
    Form("kafka-topics --bootstrap-server localhost:9092 --describe --topic orders", "PartitionCount: 1"),
    Form("/opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka:9092 --list > /dev/null 2>&1 || exit 1"),
    Form("cd /opt/kafka && bin/kafka-topics.sh --bootstrap-server localhost:9092 --list", "orders"),
    Form("cd /opt/kafka/bin && ./kafka-topics.sh --bootstrap-server localhost:9092 --list", "orders"),
    Form("/opt/bitnami/kafka/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list", "orders"),
    Form("/kafka/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list", "orders"),
    Form("/opt/landoop/kafka/bin/kafka-topics --bootstrap-server localhost:9092 --list", "orders"),
    Form("timeout 10 kafka-topics --bootstrap-server localhost:9092 --list", "orders"),
    Form("unset JMX_PORT; kafka-topics.sh --bootstrap-server localhost:9092 --list", "orders"),
    Form("JMX_PORT=0 KAFKA_OPTS= kafka-topics.sh --bootstrap-server localhost:9092 --list", "orders"),
    Form("kafka-cluster.sh cluster-id --bootstrap-server :9092", "Cluster ID: "),
    Form("kafka-consumer-groups --bootstrap-server localhost:9092 --list"),
    Form("/opt/kafka/bin/kafka-metadata-quorum.sh --bootstrap-server localhost:9092 describe --status", "LeaderId:"),
    Form("netstat -plnt | fgrep ':9092'"),
    Form("netstat -an | grep 9092 | grep -q LISTEN"),
    Form("netstat -tln | grep -q ':9999 '", fails="nothing listens there"),
    Form("zookeeper-shell zookeeper:2181 get /brokers/ids/1 | grep {", '"port":9092'),
    Form("zookeeper-shell localhost:2181 ls /brokers/ids", "[1]"),
    Form("ub kafka-ready -b localhost:9092 1 5"),
    Form("cub kafka-ready -b kafka:9092 1 30"),
    Form("cub kafka-ready 1 20 -b localhost:9092"),
    Form("kafkacat -b localhost:9092 -L", "orders"),
    Form("kcat -L -b kafka:9092 -t orders", "orders"),
    Form("nc -z localhost 9092"),
    Form("nc -z kafka 9092 || exit 1"),
    Form("nc -vz -w 1 localhost 9092"),
    Form("nc -z localhost 9093"),
    Form("bash -c 'echo > /dev/tcp/localhost/9093'"),
    Form("bash -c '</dev/tcp/localhost/9092'"),
    Form("exec 3<>/dev/tcp/localhost/9092"),
    Form("pgrep -f kafka"),
    Form("pgrep -f kafka.Kafka"),
    Form("ps aux | grep -v grep | grep -q kafka.Kafka"),
    Form("ps ax | grep -i 'kafka\\.Kafka' | grep java | grep -v grep", fails=NO_JVM),
    Form("jps | grep Kafka", "not found", fails=NO_JVM),
    Form("wget -q --spider http://localhost:8091/v1/metadata/id"),
    Form("curl --fail --silent http://localhost:8091/v1/metadata/id", '"kafka-cluster"'),
    Form("curl --fail --silent --output /dev/null --insecure -I http://localhost:8091/v1/metadata/id"),
    Form("curl -f -s -u superUser:superUser http://localhost:8091/kafka/v3/clusters/", '"KafkaClusterList"'),
    Form("curl -f http://localhost:8081/subjects", "["),
)
"""Forms of health checks, and what they are made of."""

SETTINGS: Final = "/tmp/client.properties"
"""A file with client properties, which exists before the first command."""

TOOL_COMMANDS: Final = (
    Form(
        "kafka-topics --bootstrap-server localhost:9092 --create --topic a --partitions 3 --replication-factor 1",
        "Created topic a.",
    ),
    Form(
        "kafka-topics --bootstrap-server localhost:9092 --create --topic a", "already exists", fails="the topic exists"
    ),
    Form("kafka-topics --bootstrap-server localhost:9092 --create --if-not-exists --topic a --partitions 3"),
    Form(
        "/opt/kafka/bin/kafka-topics.sh --create --topic b --bootstrap-server kafka:9092 --partitions 1 "
        "--replication-factor 1 --config retention.ms=60000 --config cleanup.policy=delete",
        "Created topic b.",
    ),
    Form(
        "kafka-topics --zookeeper zookeeper:2181 --create --topic c --partitions 1 --replication-factor 1",
        "Created topic c.",
    ),
    Form("kafka-topics --bootstrap-server localhost:9092 --describe --topic b", "retention.ms=60000"),
    Form("kafka-topics.sh --bootstrap-server localhost:9092 --list --exclude-internal", "a\nb\nc\n"),
    Form(f"kafka-topics --bootstrap-server localhost:9092 --command-config {SETTINGS} --list", "orders"),
    Form("kafka-topics --bootstrap-server localhost:9092 --alter --topic a --partitions 4"),
    Form("kafka-topics --bootstrap-server localhost:9092 --delete --if-exists --topic none"),
    Form("kafka-topics --bootstrap-server localhost:9092 --delete --topic c"),
    Form(f"kafka-broker-api-versions --bootstrap-server localhost:9092 --command-config {SETTINGS}", "Produce(0)"),
    Form(
        "kafka-configs --bootstrap-server localhost:9092 --alter --entity-type topics --entity-name a "
        "--add-config retention.ms=1000",
        "Completed updating config for topic a.",
    ),
    Form(
        "kafka-configs --bootstrap-server localhost:9092 --describe --entity-type topics --entity-name a",
        "retention.ms=1000",
    ),
    Form(
        "kafka-configs.sh --bootstrap-server localhost:9092 --alter --entity-type topics --entity-name a "
        "--delete-config retention.ms"
    ),
    Form(
        "kafka-configs --bootstrap-server localhost:9092 --alter --entity-type users --entity-name u "
        "--add-config 'SCRAM-SHA-256=[iterations=4096,password=secret]'",
        "Completed updating config for user u.",
    ),
    Form(
        "kafka-configs --zookeeper localhost:2181 --alter --entity-type users --entity-name w "
        "--add-config 'SCRAM-SHA-512=[password=secret]'",
        "Completed",
    ),
    Form(
        "kafka-configs --bootstrap-server localhost:9092 --alter --entity-type clients --entity-name c "
        "--add-config producer_byte_rate=1048576",
        "Completed",
    ),
    Form(
        "kafka-configs --bootstrap-server localhost:9092 --alter --entity-type users --entity-default "
        "--add-config consumer_byte_rate=1048576",
        "Completed",
    ),
    Form(
        "kafka-configs --bootstrap-server localhost:9092 --alter --entity-type topics --entity-name a "
        "--add-config-file /tmp/topic.properties",
        "Completed",
    ),
    Form(
        "kafka-configs --bootstrap-server localhost:9092 --describe --entity-type brokers --entity-name 1", "broker 1"
    ),
    Form("echo one | kafka-console-producer --broker-list localhost:9092 --topic a"),
    Form(
        "printf 'k:v\n' | kafka-console-producer.sh --bootstrap-server localhost:9092 --topic a "
        "--property parse.key=true --property key.separator=:"
    ),
    Form("kafka-console-producer --broker-list kafka:9092 -topic b < /tmp/client.properties"),
    Form(f"echo two | kafka-console-producer --bootstrap-server localhost:9092 --producer.config {SETTINGS} --topic a"),
    Form(
        "kafka-console-consumer --bootstrap-server localhost:9092 --topic a --from-beginning "
        "--max-messages 3 --timeout-ms 10000",
        "Processed a total of 3 messages",
    ),
    Form(
        "kafka-console-consumer --bootstrap-server localhost:9092 --topic a --from-beginning "
        "--max-messages 3 --property print.key=true --property key.separator=:",
        "k:v",
    ),
    Form(
        f"kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic b --partition 0 --offset "
        f"earliest --consumer.config {SETTINGS} --max-messages 1",
        "security.protocol",
    ),
    Form(
        "kafka-console-consumer --bootstrap-server localhost:9092 --topic a --group g --from-beginning "
        "--max-messages 3 --formatter kafka.tools.DefaultMessageFormatter",
        "Processed",
    ),
    Form("kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group g", "LAG"),
    Form("kafka-get-offsets --bootstrap-server localhost:9092 --topic b --time latest", "b:0:"),
    Form("kafka-get-offsets.sh --bootstrap-server localhost:9092 --topic b --time -1", "b:0:"),
    Form("kafka-run-class kafka.tools.GetOffsetShell --broker-list localhost:9092 --topic b --time -1", "b:0:"),
    Form("kafka-run-class.sh kafka.tools.JmxTool --object-name kafka.server:type=app-info", "JmxTool", fails=NO_JVM),
    Form("cub kafka-ready -b localhost:9092 1 20"),
    Form(f"cub kafka-ready -b localhost:9092 1 20 --config {SETTINGS}"),
    Form("cub sr-ready localhost 8081 20"),
    Form("cub zk-ready zookeeper:2181 1", "accepted no connection", fails="ZooKeeper is another service's image"),
    Form(
        'echo \'{{ env_to_props("KAFKA_", "")["home"] }}\' > /tmp/t.template && '
        "dub template /tmp/t.template /tmp/t && cat /tmp/t",
        "/opt/kafka",
    ),
    Form("dub http-ready http://localhost:9092 0.1", "was not ready", fails="that port speaks Kafka's protocol"),
    Form("dub wait localhost 9092 5"),
    Form("dub path /var/lib/kafka/data writable"),
    Form("dub ensure KAFKA_ADVERTISED_LISTENERS"),
    Form("kafkacat -b localhost:9092 -P -t a <<EOF\nthree\nEOF"),
    Form("kcat -b localhost:9092 -C -t a -e -o beginning", "three"),
    Form("kafka-storage random-uuid"),
    Form(
        "kafka-storage format --ignore-formatted -t $(kafka-storage random-uuid) -c /tmp/server.properties",
        "Formatting",
    ),
    Form(
        "kafka-storage format -t $(kafka-storage random-uuid) -c /tmp/server.properties",
        "already formatted",
        fails="it is",
    ),
    Form(
        "kafka-producer-perf-test --topic a --num-records 10 --record-size 10 --throughput -1 "
        "--producer-props bootstrap.servers=localhost:9092",
        "10 records sent",
    ),
    Form(
        "kafka-consumer-perf-test --bootstrap-server localhost:9092 --topic a --messages 10 --timeout 10000", "nMsg.sec"
    ),
    Form("kafka-leader-election --bootstrap-server localhost:9092 --election-type preferred --all-topic-partitions"),
    Form(
        "kafka-acls --bootstrap-server localhost:9092 --list",
        "No Authorizer",
        fails="no authorizer is configured, as in Kafka",
    ),
    Form(
        "kafka-delete-records.sh --bootstrap-server localhost:9092 --offset-json-file /tmp/records.json",
        "low_watermark",
    ),
    Form("zookeeper-shell zookeeper:2181 ls /brokers/topics", "orders"),
    Form(
        "echo 5 | kafka-avro-console-producer --broker-list localhost:9092 --topic sizes "
        """--property schema.registry.url=http://localhost:8081 --property value.schema='{"type":"int"}'"""
    ),
    Form(
        "kafka-avro-console-consumer --bootstrap-server localhost:9092 --topic sizes --from-beginning --max-messages 1 "
        "--property schema.registry.url=http://localhost:8081",
        "5",
    ),
    Form("connect-distributed worker.properties", "not found", fails="Kafka Connect is another service's image"),
)
"""Commands of start scripts and init containers, ordered so that each finds what it needs."""
