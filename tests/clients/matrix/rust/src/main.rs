//! What rskafka can do with a broker. It has no groups and no transactions; drivers/harness.py says what is printed.

use rskafka::chrono::{TimeZone, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const TIMEOUT_MS: i32 = 60_000;
const NAMES: [&str; 16] = [
    "create-topic", "produce", "gzip", "snappy", "lz4", "zstd", "big-records", "headers", "nulls", "earliest", "latest",
    "timestamp", "seek", "list-topics", "delete-records", "delete-topic",
];

fn that(so: bool, found: impl std::fmt::Debug) -> Outcome {
    if so { Ok(()) } else { Err(format!("found {found:?}").chars().take(300).collect::<String>().into()) }
}

fn record(value: Option<&[u8]>) -> Record {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock before 1970").as_millis() as i64;
    let timestamp = Utc.timestamp_millis_opt(now).unwrap();
    Record { key: None, value: value.map(<[u8]>::to_vec), headers: BTreeMap::new(), timestamp }
}

async fn new_topic(client: &Client, topic: &str) -> Result<PartitionClient, rskafka::client::error::Error> {
    client.controller_client()?.create_topic(topic, 1, 1, TIMEOUT_MS).await?;
    client.partition_client(topic, 0, UnknownTopicHandling::Retry).await
}

async fn read(
    partition: &PartitionClient, count: usize, start: i64,
) -> Result<Vec<RecordAndOffset>, rskafka::client::error::Error> {
    let mut found: Vec<RecordAndOffset> = vec![];
    while found.len() < count {
        let next = found.last().map_or(start, |last| last.offset + 1);
        found.extend(partition.fetch_records(next, 1..4_000_000, 500).await?.0);
    }
    Ok(found)
}

async fn values(partition: &PartitionClient, count: usize, start: i64) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let found = read(partition, count, start).await?;
    Ok(found.into_iter().map(|each| String::from_utf8_lossy(&each.record.value.unwrap_or_default()).into_owned()).collect())
}

async fn round_trip(partition: &PartitionClient, compression: Compression) -> Outcome {
    let wanted: Vec<String> = (0..20).map(|number| format!("{number}").repeat(50)).collect();
    let records = wanted.iter().map(|each| record(Some(each.as_bytes()))).collect();
    let offsets = partition.produce(records, compression).await?;
    that(offsets == (0..20).collect::<Vec<i64>>(), offsets)?;
    let found = values(partition, 20, 0).await?;
    that(found == wanted, found)
}

async fn check(name: &str, client: &Client, topic: &str) -> Outcome {
    let partition = new_topic(client, topic).await?;
    let controller = client.controller_client()?;
    let three = || ["1", "2", "3"].iter().map(|each| record(Some(each.as_bytes()))).collect::<Vec<Record>>();
    match name {
        "create-topic" => {
            let refusal = controller.create_topic(topic, 1, 1, TIMEOUT_MS).await;
            that(format!("{refusal:?}").contains("TopicAlreadyExists"), refusal)
        }
        "produce" => round_trip(&partition, Compression::NoCompression).await,
        "gzip" => round_trip(&partition, Compression::Gzip).await,
        "snappy" => round_trip(&partition, Compression::Snappy).await,
        "lz4" => round_trip(&partition, Compression::Lz4).await,
        "zstd" => round_trip(&partition, Compression::Zstd).await,
        "big-records" => {
            let value = vec![b'x'; 800_000];
            partition.produce(vec![record(Some(&value))], Compression::NoCompression).await?;
            let found = read(&partition, 1, 0).await?;
            that(found[0].record.value.as_deref() == Some(&value[..]), "another value")
        }
        "headers" => {
            let mut one = record(Some(b"v"));
            one.headers = BTreeMap::from([("a".to_owned(), vec![1]), ("b".to_owned(), vec![])]);
            partition.produce(vec![one.clone()], Compression::NoCompression).await?;
            let found = read(&partition, 1, 0).await?;
            that(found[0].record.headers == one.headers, &found)
        }
        "nulls" => {
            let mut one = record(None);
            one.key = Some(b"k".to_vec());
            partition.produce(vec![one, record(Some(b""))], Compression::NoCompression).await?;
            let found = read(&partition, 2, 0).await?;
            that(found[0].record.value.is_none() && found[1].record.key.is_none(), &found)
        }
        "earliest" => {
            partition.produce(three(), Compression::NoCompression).await?;
            let offset = partition.get_offset(OffsetAt::Earliest).await?;
            let found = values(&partition, 3, offset).await?;
            that(found == ["1", "2", "3"], found)
        }
        "latest" => {
            partition.produce(three(), Compression::NoCompression).await?;
            let offset = partition.get_offset(OffsetAt::Latest).await?;
            that(offset == 3, offset)
        }
        "timestamp" => {
            for seconds in [1_000, 2_000, 3_000] {
                let mut one = record(Some(b"v"));
                one.timestamp = Utc.timestamp_opt(seconds, 0).unwrap();
                partition.produce(vec![one], Compression::NoCompression).await?;
            }
            let offset = partition.get_offset(OffsetAt::Timestamp(Utc.timestamp_opt(1_001, 0).unwrap())).await?;
            that(offset == 1, offset)
        }
        "seek" => {
            partition.produce(three(), Compression::NoCompression).await?;
            let found = values(&partition, 1, 2).await?;
            let refusal = partition.fetch_records(99, 1..1_000, 500).await;
            that(found == ["3"] && format!("{refusal:?}").contains("OffsetOutOfRange"), (found, refusal))
        }
        "list-topics" => {
            let found = client.list_topics().await?;
            that(found.iter().any(|each| each.name == topic), "it is not there")
        }
        "delete-records" => {
            partition.produce(three(), Compression::NoCompression).await?;
            partition.delete_records(2, TIMEOUT_MS).await?;
            let offset = partition.get_offset(OffsetAt::Earliest).await?;
            that(offset == 2, offset)
        }
        "delete-topic" => {
            controller.delete_topic(topic, TIMEOUT_MS).await?;
            while client.list_topics().await?.iter().any(|each| each.name == topic) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        }
        other => Err(format!("there is no check {other}").into()),
    }
}

async fn limited(outcome: impl Future<Output = Outcome>) -> String {
    let seconds = std::env::var("CHECK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    match tokio::time::timeout(Duration::from_secs(seconds), outcome).await {
        Ok(Ok(())) => String::new(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "nothing came of it in time".to_owned(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let only = std::env::var("ONLY").unwrap_or_default();
    let names: Vec<&str> = NAMES.into_iter().filter(|name| only.is_empty() || only.split(' ').any(|each| each == *name)).collect();
    println!("{{\"checks\": [\"{}\"]}}", names.join("\", \""));
    let client = ClientBuilder::new(vec![arguments[1].clone()]).build().await.expect("no broker");
    for name in names {
        let error = limited(check(name, &client, &format!("{}-{name}", arguments[2]))).await;
        let quoted = error.replace('\\', "/").replace('"', "'").replace('\n', " ");
        println!("{{\"check\": \"{name}\", \"ok\": {}, \"error\": \"{quoted}\"}}", error.is_empty());
    }
}
