use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Deref;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::program::{damage, find_program, hint};
use crate::{Client, Error, VERSION};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const KEPT_ERRORS: usize = 8 << 10;

/// The options of a broker for [`ServeOptions::start`]. The default is one broker on a free port without topics, whose
/// data is deleted when it stops.
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
    /// Sets the program and its first arguments, such as `["python3", "-m", "minibroker"]`. The default is the first of
    /// the program in the environment variable `MINIBROKER_COMMAND`, the program or archive of a release in
    /// `MINIBROKER_BINARY`, the release in the cache, and minibroker on the PATH.
    pub fn command<I: IntoIterator<Item = S>, S: Into<String>>(mut self, words: I) -> Self {
        self.command = words.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a topic to create at the start and again at each reset: `NAME[:PARTITIONS[:KEY=VALUE,...]]`.
    pub fn topic(mut self, topic: &str) -> Self {
        self.topics.push(topic.into());
        self
    }

    /// Sets the size of the cluster.
    pub fn brokers(mut self, count: u32) -> Self {
        self.brokers = Some(count);
        self
    }

    /// Adds a schema registry. It requires the extra `registry`.
    pub fn registry(self) -> Self {
        self.arg("--registry").arg("127.0.0.1:0")
    }

    /// Sets the token that the control plane requires. The [`Broker`] sends it.
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Adds an argument of `minibroker serve`, such as `--set`.
    pub fn arg(mut self, argument: &str) -> Self {
        self.args.push(argument.into());
        self
    }

    /// Does not forward the broker's stderr. The error of a failed start still has the end of it.
    pub fn quiet(mut self) -> Self {
        self.is_quiet = true;
        self
    }

    /// Starts `minibroker serve` as a child process on free ports, and returns when clients can connect. The broker
    /// also ends when this process ends.
    pub fn start(self) -> Result<Broker, Error> {
        let words = self.words().map_err(|error| Error::Failed(error.to_string()))?;
        let shown = words.join(" ");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(token) = &self.token {
            command.env("MINIBROKER_CONTROL_TOKEN", token);
        }
        let mut child = command
            .spawn()
            .map_err(|error| Error::Failed(format!("{} does not start: {error}; {}", words[0], hint(&words[0]))))?;
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
                let registry_url = place.get("registry").map(|url| url.to_string());
                let broker = Broker { client, bootstrap_servers, registry_url, child, errors: Some(errors) };
                match broker.about()?.version {
                    version if version == VERSION => Ok(broker),
                    version => Err(Error::Failed(format!(
                        "{} has the version {version}, and the crate minibroker {VERSION}",
                        words[0]
                    ))),
                }
            }
            Err(reason) => {
                if reason == RecvTimeoutError::Timeout {
                    let _ = child.kill();
                }
                let status = child.wait().map(|status| status.to_string()).unwrap_or_default();
                let said = errors.join().unwrap_or_default();
                let reason = format!("{shown}: it has ended before it was ready: {status}\n{said}");
                Err(Error::Failed(format!("{}{}", reason.trim_end(), damage(&words[0]))))
            }
        }
    }

    fn words(&self) -> std::io::Result<Vec<String>> {
        let mut words = self.command.clone();
        if words.is_empty() {
            words.push(find_program()?);
        }
        words.extend(
            ["serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--stop-with-stdin", "--journal"].map(Into::into),
        );
        for topic in &self.topics {
            words.extend(["--topic".into(), topic.clone()]);
        }
        if let Some(count) = self.brokers {
            words.extend(["--brokers".into(), count.to_string()]);
        }
        words.extend(self.args.iter().cloned());
        Ok(words)
    }
}

/// Waits for the line `minibroker ready: bootstrap=... control=...`. Returns an error if the broker ends or is too
/// slow.
fn ready_line(stdout: ChildStdout) -> Result<String, RecvTimeoutError> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.starts_with("minibroker ready:") {
                let _ = sender.send(line); // Keep reading, since a full pipe would block the broker.
            }
        }
    });
    receiver.recv_timeout(START_TIMEOUT)
}

/// Forwards the broker's stderr, and returns the end of it when it is closed.
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

/// A `minibroker serve` started by this process, and a client of its control plane. It ends when it is dropped.
#[derive(Debug)]
pub struct Broker {
    client: Client,
    /// For the configuration of Kafka clients: HOST:PORT, or several separated by commas.
    pub bootstrap_servers: String,
    /// The address of the schema registry, if [`ServeOptions::registry`] was set.
    pub registry_url: Option<String>,
    child: Child,
    errors: Option<JoinHandle<String>>,
}

impl Broker {
    /// Returns the options of a broker to start.
    pub fn options() -> ServeOptions {
        ServeOptions::default()
    }

    /// Ends the broker and deletes its data unless it has a --data-dir. It can be called more than once. Returns an
    /// error if the broker has failed or had to be killed.
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
