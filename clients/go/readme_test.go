package minibroker_test

import (
	"context"
	"testing"

	"example.com/minibroker"
)

func TestAnOrderIsThere(t *testing.T) {
	broker := minibroker.Start(t, "orders:3")
	ctx := context.Background()
	order := map[string]any{"id": 1}
	if _, err := broker.Produce(ctx, "orders", minibroker.ProduceOptions{}, minibroker.NewRecord{Key: "1", Value: order}); err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Expect(ctx, "orders", minibroker.Expectation{Value: order}, minibroker.FormatJSON); err != nil {
		t.Fatal(err)
	}
}
