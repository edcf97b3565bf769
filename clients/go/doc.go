// Package minibroker gives Go tests the HTTP control plane of a minibroker broker: topics, records, groups, faults, the
// journal of requests, time, settings, snapshots and resets.
//
// [Serve] starts a broker as a child process, and [New] is a client of one that runs elsewhere:
//
//	broker, err := minibroker.Serve(ctx, minibroker.ServeOptions{Topics: []string{"orders:3"}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer broker.Stop()
//	record, err := broker.Expect(ctx, "orders", minibroker.Expectation{Value: map[string]any{"id": 1}}, minibroker.FormatJSON)
//
// Each method sends one request and has the name of the operation's id in the broker's OpenAPI document. A request that
// the broker refuses, or a wait that times out, returns an [*Error].
package minibroker
