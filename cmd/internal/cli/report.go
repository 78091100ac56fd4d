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
	Command string // the command whose help lists the flags, such as "millrace serve"
}

// Usage makes err a fault of the usage of a command.
func Usage(err error, command string) error { return &UsageError{err, command} }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Option is a flag and its value; true for a flag without a value.
type Option struct {
	Flag  string // without dashes
	Value any    // string, number or true
}

// Options are those of one command line, in order.
type Options []Option

// String is how a user types them.
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

// MarshalJSON makes an object of them, by the flags' names with _ for -.
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
	Options Options // that make the command, all of them; nil: it is of another program
	Effect  string
}

// Advice is the cause of a failure, with its cure.
type Advice struct {
	Message string   // one line
	Cure    string   // one line, may be empty
	Choices []Choice // commands of which each would work
	Indexes []string // of the dataset, as #NAME, if the requested one is missing
	Fields  []string // columns of the dataset, if a requested one is missing
}

// String is the advice for people.
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

// Refusal is a fault of the caller's options or data, with its cure.
type Refusal struct {
	Advice
	Cause error
}

func (e *Refusal) Error() string { return e.String() }
func (e *Refusal) Unwrap() error { return e.Cause }

// Failure is why a command failed: JSON for scripts, text for people.
type Failure struct {
	Code string // one word
	Exit int    // of the process
	Advice
}

// MarshalJSON leaves out empty members.
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

// faultsOf returns the faults of a message, each a line; lines that begin with a space belong to the fault before them.
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

// encode returns v as JSON in one line.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // addresses hold ampersands
	err := enc.Encode(v)
	return out.Bytes(), err
}

// Report prints why a command failed: as text on stderr, one line per fault; with --json as one JSON object on stdout, or on stderr where stdout
// holds a result already. err is the failure's cause.
func (a *App) Report(err error, f Failure) {
	if a.JSON {
		out, to := []byte(nil), a.faults
		if out, _ = encode(map[string]Failure{"error": f}); !a.printed { // of texts and numbers: encoding cannot fail
			to = a.Stdout
		}
		_, _ = to.Write(out) // no other channel is left
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
