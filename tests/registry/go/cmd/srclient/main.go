// Command srclient uses a schema registry as srclient's users do, and prints what it has seen as JSON.
package main

import (
	"encoding/json"
	"errors"
	"log"
	"os"

	"github.com/riferrei/srclient"
)

const (
	customer = `{"type":"record","name":"Customer","fields":[{"name":"id","type":"int"}]}`
	order    = `{"type":"record","name":"Order","fields":[{"name":"customer","type":"Customer"}]}`
	changed  = `{"type":"record","name":"Customer","fields":[{"name":"id","type":"string"}]}`
	jsonText = `{"type":"object","properties":{"id":{"type":"integer"}}}`
	protobuf = "syntax = \"proto3\";\n\nmessage Order {\n  int32 id = 1;\n}\n"
)

func main() {
	client := srclient.NewSchemaRegistryClient(os.Args[1])
	created := must(client.CreateSchema("customer", customer, srclient.Avro))
	reference := srclient.Reference{Name: "Customer", Subject: "customer", Version: 1}
	referring := must(client.CreateSchema("orders-value", order, srclient.Avro, reference))
	must(client.CreateSchema("json-value", jsonText, srclient.Json))
	must(client.CreateSchema("protobuf-value", protobuf, srclient.Protobuf))

	fresh := srclient.NewSchemaRegistryClient(os.Args[1])
	read := must(fresh.GetSchema(referring.ID()))
	latest := must(fresh.GetLatestSchema("protobuf-value"))
	found := must(fresh.LookupSchema("customer", customer, srclient.Avro))
	global := must(fresh.GetGlobalCompatibilityLevel())
	inherited := must(fresh.GetCompatibilityLevel("customer", true))
	level := must(fresh.ChangeSubjectCompatibilityLevel("customer", srclient.Full))
	_, refused := fresh.CreateSchema("customer", changed, srclient.Avro)
	var answer srclient.Error
	errors.As(refused, &answer)
	seen := map[string]any{
		"references": read.References(),
		"protobuf":   latest.Schema() == protobuf,
		"found":      found.ID() == created.ID(),
		"levels":     []string{global.String(), inherited.String(), level.String()},
		"refused":    answer.Code,
		"compatible": must(fresh.IsSchemaCompatible("customer", changed, "latest", srclient.Avro)),
		"versions":   must(fresh.GetSubjectVersionsById(created.ID())),
		"subjects":   must(fresh.GetSubjects()),
	}
	if err := fresh.DeleteSubject("json-value", false); err != nil {
		log.Fatal(err)
	}
	seen["hidden"] = len(must(fresh.GetSubjectsIncludingDeleted())) - len(must(fresh.GetSubjects()))
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
