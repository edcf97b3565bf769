// Command registry uses a schema registry as franz-go's users do, and prints what it has seen as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	first  = `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}`
	second = `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"note","type":"string","default":""}]}`
	broken = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}`
)

func main() {
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(os.Args[1]))
	must(err)
	created, err := client.CreateSchema(ctx, "orders-value", sr.Schema{Schema: first})
	must(err)
	next, err := client.CreateSchema(ctx, "orders-value", sr.Schema{Schema: second})
	must(err)
	read, err := client.SchemaByID(ctx, created.ID)
	must(err)
	found, err := client.LookupSchema(ctx, "orders-value", sr.Schema{Schema: second})
	must(err)
	latest, err := client.SchemaByVersion(ctx, "orders-value", -1)
	must(err)
	types, err := client.SupportedTypes(ctx)
	must(err)
	level := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "orders-value")[0]
	must(level.Err)
	check, err := client.CheckCompatibility(ctx, "orders-value", -1, sr.Schema{Schema: broken})
	must(err)
	_, refused := client.CreateSchema(ctx, "orders-value", sr.Schema{Schema: broken})
	subjects, err := client.Subjects(ctx)
	must(err)
	deleted, err := client.DeleteSubject(ctx, "orders-value", sr.SoftDelete)
	must(err)
	hidden, err := client.Subjects(sr.WithParams(ctx, sr.ShowDeleted))
	must(err)

	var serde sr.Serde
	serde.Register(created.ID, map[string]int{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	data, err := serde.Encode(map[string]int{"id": 7})
	must(err)
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"versions":   []int{created.Version, next.Version},
		"text":       read.Schema,
		"found":      found.ID == next.ID && latest.ID == next.ID,
		"types":      len(types),
		"level":      level.Level.String(),
		"compatible": check.Is,
		"refused":    fmt.Sprint(refused),
		"subjects":   subjects,
		"deleted":    deleted,
		"hidden":     hidden,
		"prefix":     len(data) - len(`{"id":7}`),
	}))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
