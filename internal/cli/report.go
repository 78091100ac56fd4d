package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// UsageError is a fault of the command line, the environment or the configuration file.
type UsageError struct {
	Err     error
	Command string // the command whose help lists the flags, such as "millrace serve"
}

// Usage makes err a fault of the usage of a command.
func Usage(err error, command string) error { return &UsageError{err, command} }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Exit is how a process ends: its exit code, and the word for the code in errors as JSON.
type Exit struct {
	Code int
	Word string
}

// failure is an error as JSON.
type failure struct {
	Error  string   `json:"error"`
	Code   string   `json:"code"`
	Exit   int      `json:"exit"`
	Faults []string `json:"faults"`
}

// faultsOf returns the faults of an error, each a line; lines that begin with a space belong to the fault before them.
func faultsOf(err error) (faults []string) {
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		if n := len(faults); n > 0 && strings.HasPrefix(line, " ") {
			faults[n-1] += "\n" + line
		} else {
			faults = append(faults, line)
		}
	}
	return faults
}

// Report prints an error on stderr: as text with one fault a line, or with --json as one JSON object.
func (a *App) Report(err error, exit Exit) {
	faults := faultsOf(err)
	if a.JSON {
		enc := json.NewEncoder(a.faults)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(failure{strings.Join(faults, "; "), exit.Word, exit.Code, faults}) // nobody is left to be told
		return
	}
	var usage *UsageError
	command := "millrace"
	if errors.As(err, &usage) {
		command = usage.Command
	}
	if len(faults) == 1 {
		fmt.Fprintf(a.faults, "%s: %s\n", command, faults[0])
	} else {
		fmt.Fprintf(a.faults, "%s: %d faults:\n  %s\n", command, len(faults), strings.Join(faults, "\n  "))
	}
	if usage != nil {
		fmt.Fprintf(a.faults, "Run '%s --help' for its flags.\n", command)
	}
}
