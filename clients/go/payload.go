package minibroker

import (
	"encoding/json"
	"fmt"
)

// Format is the form in which keys, values and headers of records are shown.
type Format string

// The formats. FormatText shows bytes that are not UTF-8 as {"base64": "..."}, which [Payload.Bytes] decodes.
// FormatJSON decodes keys and values that have a schema, and shows other bytes as JSON if they are valid JSON.
const (
	FormatText   Format = "text"
	FormatBase64 Format = "base64"
	FormatJSON   Format = "json"
)

// Null is a null key or value. Nil means that no key or value is given.
var Null = null{}

type null struct{}

func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// JSON stores a value as JSON that would otherwise be stored differently. JSON("a") is a quoted text.
func JSON(value any) any { return map[string]any{"json": value} }

// payload returns a key, value or header in the control plane's form. A string is stored as UTF-8, []byte unchanged,
// and anything else as JSON.
func payload(value any) any {
	if content, ok := value.([]byte); ok {
		if content == nil {
			return nil
		}
		return map[string][]byte{"base64": content} // The encoding/json package writes bytes as base64.
	}
	return value
}

func payloads(values map[string]any) map[string]any {
	if values == nil {
		return nil
	}
	converted := make(map[string]any, len(values))
	for name, value := range values {
		converted[name] = payload(value)
	}
	return converted
}

// Payload is a key, value or header of a record, as returned by the control plane.
type Payload json.RawMessage

// UnmarshalJSON stores the JSON unchanged.
func (p *Payload) UnmarshalJSON(content []byte) error {
	*p = append((*p)[:0], content...)
	return nil
}

// MarshalJSON returns the JSON unchanged.
func (p Payload) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("null"), nil
	}
	return p, nil
}

// IsNull reports whether a key or value is null.
func (p Payload) IsNull() bool { return p == nil || string(p) == "null" }

// Bytes returns the bytes of a payload in FormatText or FormatBase64, or nil for null. In FormatJSON it returns the
// JSON of anything that is neither a text nor {"base64": ...}.
func (p Payload) Bytes() ([]byte, error) {
	if p.IsNull() {
		return nil, nil
	}
	var text string
	if json.Unmarshal(p, &text) == nil {
		return []byte(text), nil
	}
	var encoded map[string]json.RawMessage
	if json.Unmarshal(p, &encoded) == nil && len(encoded) == 1 && encoded["base64"] != nil {
		var content []byte
		if err := json.Unmarshal(encoded["base64"], &content); err != nil {
			return nil, fmt.Errorf("minibroker: %s is no base64: %w", p, err)
		}
		return content, nil
	}
	return p, nil
}

// Decode stores a payload in FormatJSON in a variable, like json.Unmarshal.
func (p Payload) Decode(variable any) error { return json.Unmarshal(p, variable) }

// String returns a text unchanged, and anything else as JSON.
func (p Payload) String() string {
	var text string
	if json.Unmarshal(p, &text) == nil && !p.IsNull() {
		return text
	}
	return string(p)
}
