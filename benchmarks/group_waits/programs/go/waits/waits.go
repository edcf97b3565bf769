// Package waits is what the drivers in Go have in common; drivers.py says what they read and print.
package waits

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	stall      = 5 * time.Second
	reassigned = 15 * time.Second // a reader of segmentio takes 9 s to close
)

// Request is a line of the input.
type Request struct {
	Bootstrap  string
	Group      string
	Topics     []string
	Partitions int
	Members    int
	PollMs     int `json:"poll_ms"`
}

// Poll is the time of one poll, for clients that have such.
func (r Request) Poll() time.Duration { return time.Duration(r.PollMs) * time.Millisecond }

// Client is one consumer, used by one goroutine but for Count.
type Client interface {
	// Poll waits for records, calls seen when they are there, and commits them before it returns true.
	Poll(seen func()) (bool, error)
	// Count is the number of partitions that it has.
	Count() int
	Close() error
}

// Observer is a client that cannot count its partitions, and asks the broker about its group.
type Observer interface {
	IsStable(members int) bool
}

type member struct {
	client           Client
	leaving          atomic.Bool
	began, seen, end atomic.Int64
	done             chan struct{}
	err              error
}

type result struct {
	Record  *float64  `json:"record_ms"`
	Leave   *float64  `json:"leave_ms"`
	Settled bool      `json:"is_settled"`
	Closes  []float64 `json:"closes_ms"`
	Error   string    `json:"error"`
}

func now() int64 { return time.Now().UnixMicro() }

func since(began int64, until int64) *float64 {
	ms := float64(until-began) / 1000
	return &ms
}

// run polls until the member has to leave. A client may wait longer than a poll takes, so closing it does not wait.
func (m *member) run(seen chan struct{}, once *sync.Once) {
	for !m.leaving.Load() {
		got, err := m.client.Poll(func() { m.seen.CompareAndSwap(0, now()) })
		if err != nil && !m.leaving.Load() {
			m.err = err
			return
		}
		if got {
			once.Do(func() { close(seen) })
		}
	}
}

func (m *member) close() {
	m.leaving.Store(true)
	m.began.Store(now())
	if err := m.client.Close(); err != nil && m.err == nil {
		m.err = err
	}
	m.end.Store(now())
	close(m.done)
}

func phase(request Request, members int, open func(Request) (Client, error)) result {
	began := now()
	seen, once := make(chan struct{}), &sync.Once{}
	group := make([]*member, members)
	var subscribed sync.WaitGroup
	for i := range group {
		group[i] = &member{done: make(chan struct{})}
		subscribed.Add(1)
		go func(each *member) {
			client, err := open(request)
			if err != nil {
				panic(err)
			}
			each.client = client
			subscribed.Done()
			each.run(seen, once)
		}(group[i])
	}
	subscribed.Wait()
	fmt.Println(`{"subscribed": true}`)
	select {
	case <-seen:
	case <-time.After(stall):
	}
	made := result{Settled: true, Closes: []float64{}}
	partitions := len(request.Topics) * request.Partitions
	left := group
	if members > 1 {
		made.Settled = settle(group, partitions)
		last := group[members-1]
		left = group[:members-1]
		go last.close()
		if made.Settled && settle(left, partitions) {
			made.Leave = since(last.began.Load(), now())
		}
	}
	for _, each := range left {
		go each.close()
	}
	errors := []string{}
	for _, each := range group {
		select {
		case <-each.done:
			made.Closes = append(made.Closes, *since(each.began.Load(), each.end.Load()))
		case <-time.After(reassigned):
		}
		if at := each.seen.Load(); at > 0 && (made.Record == nil || *made.Record > *since(began, at)) {
			made.Record = since(began, at)
		}
		if each.err != nil {
			errors = append(errors, each.err.Error())
		}
	}
	made.Error = strings.Join(errors, "; ")
	return made
}

// settle waits until all members have partitions, and all partitions a member; it says whether that is so.
func settle(group []*member, partitions int) bool {
	for deadline := time.Now().Add(reassigned); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if observer, is := group[0].client.(Observer); is {
			if observer.IsStable(len(group)) {
				return true
			}
			time.Sleep(20 * time.Millisecond) // each time it looks up the coordinator, too
			continue
		}
		sum, all := 0, true
		for _, each := range group {
			count := each.client.Count()
			sum += count
			all = all && count > 0
		}
		if all && sum == partitions {
			return true
		}
	}
	return false
}

// Serve answers each line of the input.
func Serve(open func(Request) (Client, error)) {
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var request Request
		if err := json.Unmarshal(input.Bytes(), &request); err != nil {
			panic(err)
		}
		first := phase(request, request.Members, open)
		line, _ := json.Marshal(map[string]result{"first": first, "second": phase(request, 1, open)})
		fmt.Println(string(line))
	}
}
