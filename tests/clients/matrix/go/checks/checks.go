// Package checks runs the checks of a driver one after another and prints a line of JSON for each; see drivers/harness.py.
package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Session is the session timeout of members: none of them has to be missed for that long.
const Session = 20 * time.Second

// Limit is the time for one check: so much that only what hangs reaches it.
var Limit = limit()

func limit() time.Duration {
	if seconds, err := strconv.Atoi(os.Getenv("CHECK_SECONDS")); err == nil {
		return time.Duration(seconds) * time.Second
	}
	return 5 * time.Minute
}

// Bootstrap is where the broker listens, and Prefix begins the name of everything that is created.
var Bootstrap, Prefix = os.Args[1], os.Args[2]

// Name is the name of the check that runs.
var Name string

// Check is one check: its name, and what it does.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// Later are the checks of what elderly clients do not offer, from files that are not built for them.
var Later []Check

// Run runs the checks, Later's too, that the environment variable ONLY names, or all of them, and ends the process.
func Run(all []Check) {
	all = append(all, Later...)
	if chosen := strings.Fields(os.Getenv("ONLY")); len(chosen) > 0 {
		all = slices.DeleteFunc(all, func(each Check) bool { return !slices.Contains(chosen, each.Name) })
	}
	names := []string{}
	for _, each := range all {
		names = append(names, each.Name)
	}
	say(map[string]any{"checks": names})
	for _, each := range all {
		Name = each.Name
		err := attempt(each)
		said := map[string]any{"check": each.Name, "ok": err == nil, "error": ""}
		if err != nil {
			said["error"] = err.Error()
		}
		say(said)
	}
	os.Exit(0)
}

func attempt(each Check) error {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if panicked := recover(); panicked != nil {
				done <- fmt.Errorf("panic: %v", panicked)
			}
		}()
		done <- each.Run(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(Limit + time.Second):
		return fmt.Errorf("nothing came of it within %s", Limit)
	}
}

func say(what any) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// That is nil when it is so, and otherwise an error that shows what was found.
func That(so bool, found ...any) error {
	if so {
		return nil
	}
	return fmt.Errorf("found %.300s", fmt.Sprintf("%+v", found))
}

// Eventually asks again until it is so.
func Eventually(ctx context.Context, condition func() (bool, error)) error {
	for {
		so, err := condition()
		if err != nil || so {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("it did not happen in time")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Values are twenty short texts.
func Values() []string {
	values := []string{}
	for number := range 20 {
		values = append(values, strings.Repeat(fmt.Sprint(number), 50))
	}
	return values
}

// Contains is nil when the text of what was found has all words in it.
func Contains(found any, words ...string) error {
	text := fmt.Sprintf("%+v", found)
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Errorf("no %q in %.300s", word, text)
		}
	}
	return nil
}
