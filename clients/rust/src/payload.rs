use base64::prelude::{Engine, BASE64_STANDARD};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{json, Value};

use crate::Error;

/// The form of keys, values and headers of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A text. Bytes that are not UTF-8 are `{"base64": "..."}`, which [`Shown::bytes`] decodes.
    #[default]
    Text,
    /// Base64 of all bytes.
    Base64,
    /// JSON. Keys and values that have a schema are decoded. Bytes that are not valid JSON are shown like [`Format::Text`].
    Json,
}

impl Format {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Text => "text",
            Self::Base64 => "base64",
            Self::Json => "json",
        }
        .into()
    }
}

/// A key, value or header to send.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Payload {
    /// No key or value.
    #[default]
    Null,
    /// A text, stored as UTF-8.
    Text(String),
    /// Bytes, stored unchanged.
    Bytes(Vec<u8>),
    /// A value stored as JSON. A text is stored with quotes.
    Json(Value),
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => Value::Null,
            Self::Text(text) => json!(text),
            Self::Bytes(bytes) => json!({"base64": BASE64_STANDARD.encode(bytes)}),
            Self::Json(value) => json!({"json": value}),
        }
        .serialize(serializer)
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

/// A key, value or header of a record, as returned by the control plane.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct Shown(pub Value);

impl Shown {
    /// Returns whether a key or value is null.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Returns the text of a payload, or `None` for anything else.
    pub fn text(&self) -> Option<&str> {
        self.0.as_str()
    }

    /// Returns the bytes of a payload in [`Format::Text`] or [`Format::Base64`], or `None` for null. In
    /// [`Format::Json`], returns the JSON of anything that is neither a text nor `{"base64": ...}`.
    pub fn bytes(&self) -> Result<Option<Vec<u8>>, Error> {
        match &self.0 {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone().into_bytes())),
            Value::Object(members) if members.len() == 1 && members.contains_key("base64") => {
                let text = members["base64"].as_str().unwrap_or_default();
                let decoded = BASE64_STANDARD.decode(text);
                decoded.map(Some).map_err(|error| Error::Failed(format!("{text:?} is no base64: {error}")))
            }
            other => Ok(Some(other.to_string().into_bytes())),
        }
    }

    /// Decodes a payload in [`Format::Json`].
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_value(self.0.clone()).map_err(|error| Error::Failed(format!("{}: {error}", self.0)))
    }
}
