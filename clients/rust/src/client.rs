use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ureq::http::Request;
use ureq::Agent;

/// Asks one control plane. Threads may share it.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    token: Option<String>,
    agent: Agent,
}

/// The broker's answer to a request that was not done.
#[derive(Debug, Clone)]
pub struct Problem {
    pub method: &'static str,
    pub path: String,
    /// That of HTTP, from 400 on.
    pub status: u16,
    /// A word for programs: bad_request, not_found, conflict, timeout, unexpected ...
    pub code: String,
    /// A sentence for people. After a wait in vain it has the present state.
    pub message: String,
    pub(crate) body: Vec<u8>,
}

/// Why there is no result.
#[derive(Debug, Clone)]
pub enum Error {
    /// The broker has not done it.
    Refused(Box<Problem>),
    /// There was no answer, no broker, or none that can be understood. The text says which.
    Failed(String),
}

impl Error {
    /// The word for programs of a request that the broker has refused.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.code),
            Self::Failed(_) => None,
        }
    }

    /// Whether this is a wait in vain.
    pub fn is_timeout(&self) -> bool {
        self.code() == Some("timeout")
    }

    /// Whether it names a topic, partition, broker, fault or snapshot that does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some("not_found")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(p) => {
                write!(f, "minibroker: {} {}: {} ({} {})", p.method, p.path, p.message, p.status, p.code)
            }
            Self::Failed(text) => write!(f, "minibroker: {text}"),
        }
    }
}

impl std::error::Error for Error {}

#[derive(Deserialize)]
struct Complaint {
    error: String,
    message: String,
}

pub(crate) type Query<'a> = Vec<(&'a str, String)>;

impl Client {
    /// A client of the control plane at a URL such as `http://127.0.0.1:9900`. The token is that of
    /// `serve --control-token`.
    pub fn new(url: &str, token: Option<&str>) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).build();
        Self { url: url.trim_end_matches('/').into(), token: token.map(Into::into), agent: config.into() }
    }

    /// The address of the control plane.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Send a request, and decode the answer.
    pub(crate) fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        query: Query,
        body: Option<&impl Serialize>,
    ) -> Result<T, Error> {
        let content = self.ask(method, path, query, body)?;
        // "nothing" is the answer 204, which has no body.
        let content = if content.is_empty() { b"null".to_vec() } else { content };
        serde_json::from_slice(&content)
            .map_err(|error| Error::Failed(format!("{method} {path}: the answer is not the expected JSON: {error}")))
    }

    /// Send a request and return the body of the answer. A status from 400 on is an error.
    pub(crate) fn ask(
        &self,
        method: &'static str,
        path: &str,
        query: Query,
        body: Option<&impl Serialize>,
    ) -> Result<Vec<u8>, Error> {
        let pairs: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let mark = if pairs.is_empty() { "" } else { "?" };
        let mut request = Request::builder().method(method).uri(format!("{}{path}{mark}{}", self.url, pairs.join("&")));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let failed = |error: &dyn fmt::Display| {
            Error::Failed(format!("no answer of the control plane at {}: {error}", self.url))
        };
        let answer = if let Some(body) = body {
            let content = serde_json::to_vec(body)
                .map_err(|error| Error::Failed(format!("{method} {path}: the body is not JSON: {error}")))?;
            let request = request.header("Content-Type", "application/json").body(content);
            self.agent.run(request.map_err(|error| failed(&error))?)
        } else if method == "POST" || method == "PUT" {
            self.agent.run(request.body(Vec::new()).map_err(|error| failed(&error))?)
        } else {
            self.agent.run(request.body(()).map_err(|error| failed(&error))?)
        };
        let mut answer = answer.map_err(|error| failed(&error))?;
        let content = answer.body_mut().with_config().limit(u64::MAX).read_to_vec().map_err(|error| failed(&error))?;
        match answer.status().as_u16() {
            0..=399 => Ok(content),
            status => Err(refused(method, path, status, content)),
        }
    }
}

fn refused(method: &'static str, path: &str, status: u16, body: Vec<u8>) -> Error {
    let complaint = serde_json::from_slice(&body).unwrap_or_else(|_| Complaint {
        error: "foreign".into(),
        message: format!("not an answer of a control plane: {:.200}", String::from_utf8_lossy(&body)),
    });
    let (code, message) = (complaint.error, complaint.message);
    Error::Refused(Box::new(Problem { method, path: path.into(), status, code, message, body }))
}

/// Join segments to a path; each is escaped, so that a group may be named "a/b".
pub(crate) fn path(segments: &[&str]) -> String {
    segments.iter().map(|each| format!("/{}", escape(each))).collect()
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
