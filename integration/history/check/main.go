// Command check reads the history of a client in another language as JSON lines from standard
// input. It exits with 1 if the history has no event or a violation.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/millrace-data/millrace/integration/history"
)

func main() {
	l := history.New(nil)
	err := l.Read(os.Stdin)
	if err == nil {
		err = l.Err()
	}
	if err == nil && l.Events() == 0 {
		err = errors.New("the history has no event")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("history: %d events, no violation\n", l.Events())
}
