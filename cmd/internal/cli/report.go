package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/internal/words"
)

// UsageError is a fault of the command line, the environment or the configuration file.
type UsageError struct {
	Err     error
	Command string // the command whose help lists the flags, for example "millrace serve"
}

// Usage returns err as a usage error of a command.
func Usage(err error, command string) error { return &UsageError{err, command} }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Option is a flag and its value. The value is true for a flag without a value.
type Option struct {
	Flag  string // without dashes
	Value any    // string, number or true
}

// Options are the options of one command line, in order.
type Options []Option

// String formats the options as a user types them.
func (o Options) String() string {
	var typed []string
	for _, one := range o {
		typed = append(typed, "--"+one.Flag)
		if one.Value != true {
			typed = append(typed, words.Quoted(fmt.Sprint(one.Value)))
		}
	}
	return strings.Join(typed, " ")
}

// MarshalJSON encodes the options as an object. The keys are the names of the flags with _ for -.
func (o Options) MarshalJSON() ([]byte, error) {
	values := map[string]any{}
	for _, one := range o {
		values[strings.ReplaceAll(one.Flag, "-", "_")] = one.Value
	}
	return encode(values)
}

// Choice is a command that avoids a refusal, and its effect.
type Choice struct {
	Command string
	Options Options // all options of the command; nil: the command is that of another program
	Effect  string
}

// Advice is the cause of a failure, and its fix.
type Advice struct {
	Message string   // one line
	Cure    string   // one line; may be empty
	Choices []Choice // commands, each of which would work
	Indexes []string // of the dataset, as #NAME, if the requested one is missing
	Fields  []string // columns of the dataset, if a requested one is missing
}

// String formats the advice as text.
func (a Advice) String() string {
	text := a.Message
	if len(a.Choices) > 0 {
		text += ". Choose:"
	}
	for _, c := range a.Choices {
		text += "\n  " + c.Command + "  # " + c.Effect
	}
	switch {
	case a.Cure != "" && len(a.Choices) > 0:
		text += "\n  " + a.Cure
	case a.Cure != "":
		text += ": " + a.Cure
	}
	return text
}

// Refusal is a fault of the caller's options or data, with its fix.
type Refusal struct {
	Advice
	Cause error
}

func (e *Refusal) Error() string { return e.String() }
func (e *Refusal) Unwrap() error { return e.Cause }

// Failure states why a command failed: as JSON for scripts, as text for people.
type Failure struct {
	Code string // one word
	Exit int    // exit code of the process
	Advice
}

// MarshalJSON omits empty members.
func (f Failure) MarshalJSON() ([]byte, error) {
	var choices []Options
	var commands []string
	for _, c := range f.Choices {
		if c.Options != nil {
			choices = append(choices, c.Options)
		} else {
			commands = append(commands, c.Command)
		}
	}
	return encode(struct {
		Code     string    `json:"code"`
		Exit     int       `json:"exit"`
		Message  string    `json:"message"`
		Cure     string    `json:"cure,omitempty"`
		Choices  []Options `json:"choices,omitempty"`
		Commands []string  `json:"commands,omitempty"`
		Indexes  []string  `json:"indexes,omitempty"`
		Fields   []string  `json:"fields,omitempty"`
	}{f.Code, f.Exit, strings.Join(faultsOf(f.Message), "; "), f.Cure, choices, commands, f.Indexes, f.Fields})
}

// faultsOf splits a message into faults, one per line. A line that begins with a space belongs to
// the fault before it.
func faultsOf(message string) (faults []string) {
	for line := range strings.SplitSeq(strings.TrimSpace(message), "\n") {
		if n := len(faults); n > 0 && strings.HasPrefix(line, " ") {
			faults[n-1] += "\n" + line
		} else {
			faults = append(faults, line)
		}
	}
	return faults
}

// encode returns v as one line of JSON.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // addresses contain ampersands
	err := enc.Encode(v)
	return out.Bytes(), err
}

// Report prints why a command failed. Without --json it prints text on stderr, one line per fault.
// With --json it prints one JSON object on stdout, or on stderr if stdout already has a result. err
// is the failure's cause.
func (a *App) Report(err error, f Failure) {
	if a.JSON {
		out, to := []byte(nil), a.faults
		if out, _ = encode(map[string]Failure{"error": f}); !a.printed { // texts and numbers always encode without an error
			to = a.Stdout
		}
		_, _ = to.Write(out) // there is no other channel to report an error
		return
	}
	command := "millrace"
	usage, isUsage := errors.AsType[*UsageError](err)
	if isUsage {
		command = usage.Command
	}
	if faults := faultsOf(f.Message); len(faults) > 1 {
		fmt.Fprintf(a.faults, "%s: %d faults:\n  %s\n", command, len(faults), strings.Join(faults, "\n  "))
	} else {
		fmt.Fprintf(a.faults, "%s: %s\n", command, f)
	}
	if isUsage {
		fmt.Fprintf(a.faults, "Run '%s --help' for its flags.\n", command)
	}
}
