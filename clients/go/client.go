package minibroker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client sends requests to one control plane. It is safe for concurrent use.
type Client struct {
	url   string
	token string
	http  *http.Client
}

// New returns a client of the control plane at a URL such as "http://127.0.0.1:9900". The token is that of
// `serve --control-token`; "" stands for none.
func New(url, token string) *Client {
	return &Client{url: strings.TrimRight(url, "/"), token: token, http: &http.Client{}}
}

// URL is the address of the control plane.
func (c *Client) URL() string { return c.url }

// Error is the broker's response to a failed request.
type Error struct {
	Method string
	Path   string
	// Status is the HTTP status, 400 or higher.
	Status int
	// Code is a code for programs: bad_request, not_found, conflict, timeout, unexpected ...
	Code string
	// Message is a sentence for people. After a timeout it describes the current state.
	Message string
	body    []byte
}

func (e *Error) Error() string {
	return fmt.Sprintf("minibroker: %s %s: %d %s: %s", e.Method, e.Path, e.Status, e.Code, e.Message)
}

// IsTimeout reports whether an error is a wait that timed out.
func IsTimeout(err error) bool { return hasCode(err, "timeout") }

// IsNotFound reports whether an error names a topic, partition, broker, fault or snapshot that does not exist.
func IsNotFound(err error) bool { return hasCode(err, "not_found") }

func hasCode(err error, code string) bool {
	var problem *Error
	return errors.As(err, &problem) && problem.Code == code
}

// call sends a request and decodes the response into result, unless result is nil or the response has no body.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, result any) error {
	content, err := c.ask(ctx, method, path, query, body)
	if err != nil || len(content) == 0 || result == nil {
		return err
	}
	return decode(method, path, content, result)
}

// ask sends a request and returns the body of the response. A status of 400 or higher is an [Error].
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, body any) ([]byte, error) {
	target := c.url + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var sent io.Reader
	if body != nil {
		content, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("minibroker: %s %s: the body is not JSON: %w", method, path, err)
		}
		sent = bytes.NewReader(content)
	}
	request, err := http.NewRequestWithContext(ctx, method, target, sent)
	if err != nil {
		return nil, fmt.Errorf("minibroker: %s %s: %w", method, path, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("minibroker: no answer of the control plane at %s: %w", c.url, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("minibroker: %s %s: the answer has broken off: %w", method, path, err)
	}
	if response.StatusCode < http.StatusBadRequest {
		return content, nil
	}
	return nil, problem(method, path, response.StatusCode, content)
}

func problem(method, path string, status int, content []byte) error {
	var answer struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	if json.Unmarshal(content, &answer) != nil || answer.Error == "" {
		answer.Error = "foreign"
		answer.Message = fmt.Sprintf("not an answer of a control plane: %.200q", content)
	}
	return &Error{
		Method: method, Path: path, Status: status, Code: answer.Error, Message: answer.Message, body: content,
	}
}

// isStrict makes the tests reject a response with a field that the types do not have.
var isStrict = false

func decode(method, path string, content []byte, result any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	if isStrict {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(result); err != nil {
		return fmt.Errorf("minibroker: %s %s: the answer is not the expected JSON: %w", method, path, err)
	}
	return nil
}

// path joins escaped segments. The name of a group can be "a/b".
func path(segments ...string) string {
	var joined strings.Builder
	for _, segment := range segments {
		joined.WriteString("/")
		joined.WriteString(url.PathEscape(segment))
	}
	return joined.String()
}
