//! The driver of rdkafka; drivers.py says what it reads and prints.

use std::io::{stdin, BufRead};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::thread::{sleep, spawn, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};

const STALL: Duration = Duration::from_secs(5);
const REASSIGNED: Duration = Duration::from_secs(10);

/// A request, taken from one line of JSON without escapes.
struct Request {
    bootstrap: String,
    group: String,
    topics: Vec<String>,
    partitions: usize,
    members: usize,
    poll: Duration,
}

fn text<'a>(line: &'a str, name: &str) -> &'a str {
    let start = line.find(&format!("\"{name}\": ")).unwrap() + name.len() + 4;
    let rest = &line[start..];
    let end = if rest.starts_with('[') { rest.find(']') } else { rest.find([',', '}']) };
    &rest[..end.unwrap()]
}

fn number(line: &str, name: &str) -> usize {
    text(line, name).parse().unwrap()
}

fn parse(line: &str) -> Request {
    let bare = |word: &str| word.trim_matches([' ', '"', '[', ']']).to_string();
    Request {
        bootstrap: bare(text(line, "bootstrap")),
        group: bare(text(line, "group")),
        topics: text(line, "topics").split(',').map(bare).collect(),
        partitions: number(line, "partitions"),
        members: number(line, "members"),
        poll: Duration::from_millis(number(line, "poll_ms") as u64),
    }
}

/// What a member and the main thread share; times are in microseconds since the phase began, and -1 before.
struct State {
    is_subscribed: AtomicBool,
    is_leaving: AtomicBool,
    count: AtomicUsize,
    seen: AtomicI64,
    has_committed: AtomicBool,
    closing: AtomicI64,
    closed: AtomicI64,
}

fn run(request: Arc<Request>, state: Arc<State>, began: Instant) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &request.bootstrap)
        .set("group.id", &request.group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    consumer.subscribe(&request.topics.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    state.is_subscribed.store(true, SeqCst);
    let consumer = Arc::new(consumer);
    let observed = Arc::downgrade(&consumer);
    let observing = state.clone();
    let observer = spawn(move || {
        while !observing.is_leaving.load(SeqCst) {
            let Some(consumer) = observed.upgrade() else { break };
            observing.count.store(consumer.assignment().map_or(0, |held| held.count()), SeqCst);
            sleep(Duration::from_millis(1));
        }
    });
    while !state.is_leaving.load(SeqCst) {
        if let Some(Ok(_)) = consumer.poll(request.poll) {
            let _ = state.seen.compare_exchange(-1, began.elapsed().as_micros() as i64, SeqCst, SeqCst);
            consumer.commit_consumer_state(CommitMode::Sync).unwrap();
            state.has_committed.store(true, SeqCst);
        }
    }
    observer.join().unwrap();
    state.closing.store(began.elapsed().as_micros() as i64, SeqCst);
    drop(consumer);
    state.closed.store(began.elapsed().as_micros() as i64, SeqCst);
}

fn until(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < limit {
        if condition() {
            return true;
        }
        sleep(Duration::from_millis(1));
    }
    condition()
}

fn ms(micros: i64) -> String {
    if micros < 0 { "null".into() } else { format!("{:.3}", micros as f64 / 1000.0) }
}

fn phase(request: &Arc<Request>, members: usize) -> String {
    let began = Instant::now();
    let states: Vec<Arc<State>> = (0..members)
        .map(|_| {
            Arc::new(State {
                is_subscribed: AtomicBool::new(false),
                is_leaving: AtomicBool::new(false),
                count: AtomicUsize::new(0),
                seen: AtomicI64::new(-1),
                has_committed: AtomicBool::new(false),
                closing: AtomicI64::new(-1),
                closed: AtomicI64::new(-1),
            })
        })
        .collect();
    let threads: Vec<JoinHandle<()>> = states
        .iter()
        .map(|state| {
            let (request, state) = (request.clone(), state.clone());
            spawn(move || run(request, state, began))
        })
        .collect();
    until(REASSIGNED, || states.iter().all(|state| state.is_subscribed.load(SeqCst)));
    println!("{{\"subscribed\": true}}");
    until(STALL, || states.iter().any(|state| state.has_committed.load(SeqCst)));
    let partitions = request.topics.len() * request.partitions;
    let settle = |of: &[Arc<State>]| {
        until(REASSIGNED, || {
            let counts: Vec<usize> = of.iter().map(|state| state.count.load(SeqCst)).collect();
            counts.iter().all(|&count| count > 0) && counts.iter().sum::<usize>() == partitions
        })
    };
    let (mut is_settled, mut leave) = (true, -1);
    if let ([rest @ .., last], true) = (&states[..], members > 1) {
        is_settled = settle(&states);
        last.is_leaving.store(true, SeqCst);
        if is_settled && settle(rest) {
            leave = began.elapsed().as_micros() as i64 - last.closing.load(SeqCst);
        }
    }
    states.iter().for_each(|state| state.is_leaving.store(true, SeqCst));
    until(REASSIGNED, || threads.iter().all(JoinHandle::is_finished));
    let seen = states.iter().map(|state| state.seen.load(SeqCst)).filter(|&at| at >= 0).min().unwrap_or(-1);
    let closes: Vec<String> = states
        .iter()
        .filter(|state| state.closed.load(SeqCst) >= 0)
        .map(|state| ms(state.closed.load(SeqCst) - state.closing.load(SeqCst)))
        .collect();
    format!(
        "{{\"record_ms\": {}, \"leave_ms\": {}, \"is_settled\": {is_settled}, \"closes_ms\": [{}], \"error\": \"\"}}",
        ms(seen),
        ms(leave),
        closes.join(", ")
    )
}

fn main() {
    for line in stdin().lock().lines() {
        let request = Arc::new(parse(&line.unwrap()));
        let first = phase(&request, request.members);
        println!("{{\"first\": {first}, \"second\": {}}}", phase(&request, 1));
    }
}
