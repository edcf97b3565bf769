// Package lines is how a program talks to the test that has started it: one JSON object a line, events out and
// commands in.
package lines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// Fields are what an event says beside its name.
type Fields map[string]any

var printing sync.Mutex

// Emit prints one event; any goroutine may.
func Emit(event string, fields Fields) {
	line := map[string]any{"event": event}
	for name, value := range fields {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Fprintf(os.Stdout, "%s\n", text)
}

// Fail prints an error event and ends the program.
func Fail(err error) {
	Emit("error", Fields{"text": err.Error()})
	os.Exit(1)
}

// Text is an error's text, or nil, which JSON writes as null.
func Text(err error) any {
	if err == nil {
		return nil
	}
	return err.Error()
}

// Argument decodes the one argument of the program into config.
func Argument(config any) {
	if len(os.Args) != 2 {
		Fail(fmt.Errorf("one argument, a JSON object, is needed"))
	}
	if err := json.Unmarshal([]byte(os.Args[1]), config); err != nil {
		Fail(err)
	}
}

// Commands calls handle with the name and the text of each command, until the input ends.
func Commands(handle func(do string, text []byte)) {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<24)
	for input.Scan() {
		var command struct{ Do string }
		if err := json.Unmarshal(input.Bytes(), &command); err != nil {
			Fail(err)
		}
		handle(command.Do, input.Bytes())
	}
}

// Decode reads the fields of a command.
func Decode(text []byte, into any) {
	if err := json.Unmarshal(text, into); err != nil {
		Fail(err)
	}
}
