use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ureq::http::Request;
use ureq::Agent;

/// A client of one control plane. Threads can share it.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    token: Option<String>,
    agent: Agent,
}

/// The broker's response to a failed request.
#[derive(Debug, Clone)]
pub struct Problem {
    pub method: &'static str,
    pub path: String,
    /// The HTTP status, 400 or higher.
    pub status: u16,
    /// A code for programs: bad_request, not_found, conflict, timeout, unexpected ...
    pub code: String,
    /// A sentence for people. After a timeout it describes the current state.
    pub message: String,
    pub(crate) body: Vec<u8>,
}

/// The reason why there is no result.
#[derive(Debug, Clone)]
pub enum Error {
    /// The broker refused the request.
    Refused(Box<Problem>),
    /// There was no response, no broker, or no response that can be decoded. The text describes the problem.
    Failed(String),
}

impl Error {
    /// Returns the code of a request that the broker refused.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.code),
            Self::Failed(_) => None,
        }
    }

    /// Returns whether a wait timed out.
    pub fn is_timeout(&self) -> bool {
        self.code() == Some("timeout")
    }

    /// Returns whether the request named a topic, partition, broker, fault or snapshot that does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some("not_found")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(p) => {
                write!(f, "minibroker: {} {}: {} {}: {}", p.method, p.path, p.status, p.code, p.message)
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
    /// Returns a client of the control plane at a URL such as `http://127.0.0.1:9900`. The token is that of
    /// `serve --control-token`.
    pub fn new(url: &str, token: Option<&str>) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).build();
        Self { url: url.trim_end_matches('/').into(), token: token.map(Into::into), agent: config.into() }
    }

    /// Returns the address of the control plane.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request and decodes the response.
    pub(crate) fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        query: Query,
        body: Option<&impl Serialize>,
    ) -> Result<T, Error> {
        let content = self.ask(method, path, query, body)?;
        // The response 204 has no body.
        let content = if content.is_empty() { b"null".to_vec() } else { content };
        serde_json::from_slice(&content)
            .map_err(|error| Error::Failed(format!("{method} {path}: the answer is not the expected JSON: {error}")))
    }

    /// Sends a request and returns the body of the response. A status of 400 or higher is an error.
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

/// Joins escaped segments to a path. The name of a group can be "a/b".
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
