package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rs/zerolog"
)

// App is the process around a command line.
type App struct {
	Env     map[string]string
	Stdout  io.Writer // data
	Stderr  io.Writer // notes and progress; discarded with --quiet
	JSON    bool      // --json was given
	Verbose bool      // --verbose was given

	Detail func(ctx context.Context) context.Context // with --verbose, prints the connections of a command
	Hide   func(string) string                       // removes the secrets from an argument or a value before it is printed

	quiet   bool
	printed bool      // Print has printed a result
	faults  io.Writer // the process's stderr, for errors and logs even with --quiet
}

// New returns an app. env has the form of os.Environ.
func New(env []string, stdout, stderr io.Writer) *App {
	if _, ok := stderr.(*os.File); !ok && stderr != nil {
		stderr = zerolog.SyncWriter(stderr) // progress and the command write concurrently
	}
	a := &App{
		Env: make(map[string]string, len(env)), Stdout: stdout, Stderr: stderr, faults: stderr, Hide: func(s string) string { return s },
		Detail: func(ctx context.Context) context.Context { return ctx },
	}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		a.Env[k] = v
	}
	return a
}

// Print writes v: as JSON with --json, otherwise as text.
func (a *App) Print(v any, text func(w io.Writer)) error {
	var out bytes.Buffer
	a.printed = true
	if a.JSON {
		enc := json.NewEncoder(&out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false) // addresses contain ampersands
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	} else {
		text(&out)
	}
	if _, err := a.Stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Confirm asks a yes-or-no question on a terminal. Without a terminal it prints that the answer is
// no, and returns false.
func (a *App) Confirm(question string) bool {
	if !terminal(a.Stderr) || !terminal(os.Stdin) {
		a.Say("Nothing was changed: add --yes.")
		return false
	}
	fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // an error means no
	return strings.EqualFold(strings.TrimSpace(answer), "y")
}

// Say writes a note for people to stderr.
func (a *App) Say(format string, args ...any) { fmt.Fprintf(a.Stderr, format+"\n", args...) }
