package minibroker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
	keptErrors   = 8 << 10
)

// ServeOptions configure the broker that [Serve] starts. The zero value is one broker on a free port without topics,
// whose data is deleted when it stops.
type ServeOptions struct {
	// Command is the program and its first arguments, such as {"python3", "-m", "minibroker"}. The default is the first
	// of the program in the environment variable MINIBROKER_COMMAND, the program or archive of a release in
	// MINIBROKER_BINARY, the release in the cache, and minibroker on the PATH.
	Command []string
	// Topics are created at the start and again at each reset: NAME[:PARTITIONS[:KEY=VALUE,...]].
	Topics []string
	// Brokers is the size of the cluster. The default is 1.
	Brokers int
	// Registry adds a schema registry. It needs the extra "registry".
	Registry bool
	// Token is the token of the control plane, or "" for none. [Broker] sends it.
	Token string
	// Args are further arguments of `minibroker serve`, such as "--set".
	Args []string
	// Stderr receives the broker's log. The default is os.Stderr.
	Stderr io.Writer
}

// Broker is a `minibroker serve` started by this process, and a client of its control plane.
type Broker struct {
	*Client
	// BootstrapServers is for the configuration of Kafka clients: HOST:PORT, or several separated by commas.
	BootstrapServers string
	// RegistryURL is the address of the schema registry, or "" without [ServeOptions.Registry].
	RegistryURL string

	command *exec.Cmd
	stdin   io.Closer
	ended   chan struct{}
	status  error
	stop    sync.Once
}

// Start starts a broker with these topics for a test, and stops it when the test has ended. It fails the test if there is
// none.
func Start(t testing.TB, topics ...string) *Broker {
	t.Helper()
	broker, err := Serve(context.Background(), ServeOptions{Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Stop(); err != nil {
			t.Error(err)
		}
	})
	return broker
}

// Serve starts `minibroker serve` as a child process on free ports, and returns when clients can connect. The broker
// also ends when this process ends, even if nothing calls [Broker.Stop].
func Serve(ctx context.Context, options ServeOptions) (*Broker, error) {
	command, err := options.command(ctx)
	if err != nil {
		return nil, err
	}
	child := exec.Command(command[0], command[1:]...)
	child.Env = os.Environ()
	if options.Token != "" {
		child.Env = append(child.Env, "MINIBROKER_CONTROL_TOKEN="+options.Token)
	}
	stderr := &tail{to: options.Stderr}
	if stderr.to == nil {
		stderr.to = os.Stderr
	}
	child.Stderr = stderr
	child.WaitDelay = stopTimeout // A process started by the broker can still hold stderr.
	stdin, err := child.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Use a separate pipe: Wait would close the pipe of StdoutPipe while it is being read.
	stdout, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	child.Stdout = theirs
	err = child.Start()
	theirs.Close()
	if err != nil {
		stdout.Close()
		return nil, fmt.Errorf("minibroker: %s does not start: %w; %s", command[0], err, hint(command[0]))
	}
	broker := &Broker{command: child, stdin: stdin, ended: make(chan struct{})}
	go func() {
		broker.status = child.Wait()
		close(broker.ended)
	}()
	if err := broker.waitUntilReady(ctx, stdout, options.Token); err != nil {
		_ = child.Process.Kill()
		<-broker.ended
		said := strings.TrimSuffix("\n"+stderr.text(), "\n")
		return nil, fmt.Errorf("minibroker: %s: %w%s%s", strings.Join(command, " "), err, said, damage(command[0]))
	}
	return broker, nil
}

func (o ServeOptions) command(ctx context.Context) ([]string, error) {
	command := append([]string(nil), o.Command...)
	if len(command) == 0 {
		program, err := findProgram(ctx)
		if err != nil {
			return nil, err
		}
		command = []string{program}
	}
	command = append(command, "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--stop-with-stdin", "--journal")
	for _, topic := range o.Topics {
		command = append(command, "--topic", topic)
	}
	if o.Brokers > 0 {
		command = append(command, "--brokers", fmt.Sprint(o.Brokers))
	}
	if o.Registry {
		command = append(command, "--registry", "127.0.0.1:0")
	}
	return append(command, o.Args...), nil
}

// waitUntilReady reads stdout up to the line "minibroker ready: bootstrap=... control=...".
func (b *Broker) waitUntilReady(ctx context.Context, stdout io.ReadCloser, token string) error {
	lines := make(chan string, 1)
	go func() {
		defer stdout.Close()
		reader := bufio.NewReader(stdout)
		for {
			line, err := reader.ReadString('\n')
			if strings.HasPrefix(line, "minibroker ready:") {
				lines <- line
			}
			if err != nil {
				close(lines)
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case line, isReady := <-lines:
		if !isReady {
			<-b.ended
			return fmt.Errorf("it has ended before it was ready: %s", b.command.ProcessState)
		}
		words := map[string]string{}
		for _, word := range strings.Fields(line) {
			name, value, _ := strings.Cut(word, "=")
			words[name] = value
		}
		b.BootstrapServers, b.RegistryURL = words["bootstrap"], words["registry"]
		b.Client = New(words["control"], token)
		about, err := b.About(ctx)
		if err == nil && about.Version != Version {
			err = fmt.Errorf("its version is %s, and that of this module %s", about.Version, Version)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("it has not become ready: %w", ctx.Err())
	}
}

// Stop ends the broker and deletes its data unless it has a --data-dir. It can be called more than once. It returns an
// error if the broker has failed or had to be killed.
func (b *Broker) Stop() error {
	var err error
	b.stop.Do(func() {
		b.stdin.Close()
		select {
		case <-b.ended:
		case <-time.After(stopTimeout):
			_ = b.command.Process.Kill()
			<-b.ended
		}
		if b.status != nil {
			err = fmt.Errorf("minibroker: the broker has ended with %w", b.status)
		}
	})
	return err
}

// tail forwards everything written to it and keeps the end.
type tail struct {
	to   io.Writer
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(content []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, content...)
	if excess := len(t.kept) - keptErrors; excess > 0 {
		t.kept = t.kept[excess:]
	}
	return t.to.Write(content)
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
