// Package control does to a minibroker broker, from Go tests, what its HTTP control plane serves: topics, records,
// groups, faults, the journal of requests, time, settings, snapshots and resets.
//
// [Serve] starts a broker as a child process, and [New] is a client of one that runs elsewhere:
//
//	broker, err := control.Serve(ctx, control.ServeOptions{Topics: []string{"orders:3"}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer broker.Stop()
//	record, err := broker.Expect(ctx, "orders", control.Expectation{Value: map[string]any{"id": 1}}, control.FormatJSON)
//
// Each method is one request. Its name is the id of the operation in the broker's OpenAPI document. A request that the
// broker refuses, or whose wait was in vain, returns an [*Error].
package control
