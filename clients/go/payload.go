package control

import (
	"encoding/json"
	"fmt"
)

// Format chooses how keys, values and headers of records are shown.
type Format string

// The formats. FormatText shows bytes that are not UTF-8 as {"base64": "..."}; [Payload.Bytes] decodes that.
// FormatJSON shows the JSON that the bytes hold, and as FormatText if they hold none.
const (
	FormatText   Format = "text"
	FormatBase64 Format = "base64"
	FormatJSON   Format = "json"
)

// Null as a key or value is null, where nil would mean "not given".
var Null = null{}

type null struct{}

func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// JSON has a value stored as its JSON, also where it would be taken for something else: JSON("a") is a quoted text.
func JSON(value any) any { return map[string]any{"json": value} }

// payload is a key, value or header as the control plane takes it. A string stands for its UTF-8, []byte for itself,
// and anything else for its JSON.
func payload(value any) any {
	if content, ok := value.([]byte); ok {
		if content == nil {
			return nil
		}
		return map[string][]byte{"base64": content} // encoding/json writes bytes as base64
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

// Payload is a key, value or header of a record as the control plane shows it.
type Payload json.RawMessage

// UnmarshalJSON keeps the JSON as it is.
func (p *Payload) UnmarshalJSON(content []byte) error {
	*p = append((*p)[:0], content...)
	return nil
}

// MarshalJSON returns the JSON as it came.
func (p Payload) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("null"), nil
	}
	return p, nil
}

// IsNull tells whether there is no key or value.
func (p Payload) IsNull() bool { return p == nil || string(p) == "null" }

// Bytes returns the bytes of a payload in FormatText or FormatBase64; nil for null. In FormatJSON it returns the JSON of
// everything that is neither a text nor {"base64": ...}.
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

// Decode stores a payload in FormatJSON into a variable, as json.Unmarshal does.
func (p Payload) Decode(variable any) error { return json.Unmarshal(p, variable) }

// String returns a text as it is, and everything else as JSON.
func (p Payload) String() string {
	var text string
	if json.Unmarshal(p, &text) == nil && !p.IsNull() {
		return text
	}
	return string(p)
}
