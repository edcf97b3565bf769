use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Deref;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Client, Error};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const KEPT_ERRORS: usize = 8 << 10;

/// The broker that [`ServeOptions::start`] starts: one on a free port, without topics, whose data goes when it stops.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    command: Vec<String>,
    topics: Vec<String>,
    brokers: Option<u32>,
    token: Option<String>,
    args: Vec<String>,
    is_quiet: bool,
}

impl ServeOptions {
    /// The program and its first arguments, such as `["python3", "-m", "minibroker"]`. By itself it is the program in the
    /// environment variable `MINIBROKER_COMMAND`, else minibroker on the PATH.
    pub fn command<I: IntoIterator<Item = S>, S: Into<String>>(mut self, words: I) -> Self {
        self.command = words.into_iter().map(Into::into).collect();
        self
    }

    /// A topic to be made at the start, and again with each reset: `NAME[:PARTITIONS[:KEY=VALUE,...]]`.
    pub fn topic(mut self, topic: &str) -> Self {
        self.topics.push(topic.into());
        self
    }

    /// The size of the cluster.
    pub fn brokers(mut self, count: u32) -> Self {
        self.brokers = Some(count);
        self
    }

    /// The token that the control plane asks for; the [`Broker`] knows it.
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.into());
        self
    }

    /// A further argument of `minibroker serve`, such as `--journal`.
    pub fn arg(mut self, argument: &str) -> Self {
        self.args.push(argument.into());
        self
    }

    /// Do not pass on what the broker reports on its stderr. An error of the start has the end of it all the same.
    pub fn quiet(mut self) -> Self {
        self.is_quiet = true;
        self
    }

    /// Start `minibroker serve` as a child process on free ports; returns once clients can connect. The broker needs the
    /// extra `control`. It also ends when this process ends.
    pub fn start(self) -> Result<Broker, Error> {
        let words = self.words();
        let shown = words.join(" ");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(token) = &self.token {
            command.env("MINIBROKER_CONTROL_TOKEN", token);
        }
        let mut child = command.spawn().map_err(|error| {
            Error::Failed(format!(
                "{} does not start: {error}; install it with its extra control, or name it in MINIBROKER_COMMAND",
                words[0]
            ))
        })?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            unreachable!("both are piped")
        };
        let is_quiet = self.is_quiet;
        let errors = thread::spawn(move || passed_on(stderr, is_quiet));
        match ready_line(stdout) {
            Ok(line) => {
                let place: HashMap<_, _> = line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
                let client = Client::new(place.get("control").unwrap_or(&""), self.token.as_deref());
                let bootstrap_servers = place.get("bootstrap").unwrap_or(&"").to_string();
                Ok(Broker { client, bootstrap_servers, child, errors: Some(errors) })
            }
            Err(reason) => {
                if reason == RecvTimeoutError::Timeout {
                    let _ = child.kill();
                }
                let status = child.wait().map(|status| status.to_string()).unwrap_or_default();
                let said = errors.join().unwrap_or_default();
                Err(Error::Failed(format!("{shown}: it has ended before it was ready: {status}\n{said}")))
            }
        }
    }

    fn words(&self) -> Vec<String> {
        let mut words = self.command.clone();
        if words.is_empty() {
            words.push(std::env::var("MINIBROKER_COMMAND").unwrap_or_else(|_| "minibroker".into()));
        }
        words.extend(
            ["serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--stop-with-stdin"].map(Into::into),
        );
        for topic in &self.topics {
            words.extend(["--topic".into(), topic.clone()]);
        }
        if let Some(count) = self.brokers {
            words.extend(["--brokers".into(), count.to_string()]);
        }
        words.extend(self.args.iter().cloned());
        words
    }
}

/// Wait for the line `minibroker ready: bootstrap=... control=...`. An error if the broker ends, or takes too long.
fn ready_line(stdout: ChildStdout) -> Result<String, RecvTimeoutError> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.starts_with("minibroker ready:") {
                let _ = sender.send(line); // and read on, so that the broker never waits for a full pipe
            }
        }
    });
    receiver.recv_timeout(START_TIMEOUT)
}

/// Pass on what the broker reports, and return the end of it when there is no more.
fn passed_on(mut stderr: ChildStderr, is_quiet: bool) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer) {
        if !is_quiet {
            let _ = std::io::stderr().write_all(&buffer[..count]);
        }
        kept.extend_from_slice(&buffer[..count]);
        let excess = kept.len().saturating_sub(KEPT_ERRORS);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).trim().into()
}

/// A `minibroker serve` that this process has started, and a client of its control plane. It ends when it is dropped.
#[derive(Debug)]
pub struct Broker {
    client: Client,
    /// For the configuration of Kafka clients: HOST:PORT, or several with commas.
    pub bootstrap_servers: String,
    child: Child,
    errors: Option<JoinHandle<String>>,
}

impl Broker {
    /// Options of a broker to start.
    pub fn options() -> ServeOptions {
        ServeOptions::default()
    }

    /// End the broker, and remove its data unless it has a --data-dir. It may be called more than once. An error tells that
    /// the broker had to be killed, or has failed.
    pub fn stop(&mut self) -> Result<(), Error> {
        if self.errors.is_none() {
            return Ok(());
        }
        let status = self.ended().map_err(|error| Error::Failed(format!("the broker cannot be stopped: {error}")))?;
        if let Some(errors) = self.errors.take() {
            let _ = errors.join();
        }
        match status.success() {
            true => Ok(()),
            false => Err(Error::Failed(format!("the broker has ended with {status}"))),
        }
    }

    fn ended(&mut self) -> std::io::Result<ExitStatus> {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                self.child.kill()?;
                return self.child.wait();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Deref for Broker {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
