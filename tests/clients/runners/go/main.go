// Starts a broker with the module that the build has packed, prints its address, and stops it when stdin ends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"example.com/minibroker"
)

func main() {
	broker, err := minibroker.Serve(context.Background(), minibroker.ServeOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(broker.BootstrapServers)
	io.Copy(io.Discard, os.Stdin)
	if err := broker.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
