// Command kfake runs franz-go's fake broker, one node, until SIGTERM. Its two arguments are the port on 127.0.0.1 and
// the directory for its files. Written as kfake does by default: to the page cache, without an fsync for each batch.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("two arguments are needed, a port and a directory")
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(os.Args[2]))
	if err != nil {
		return err
	}
	<-ended
	cluster.Close()
	return nil
}
