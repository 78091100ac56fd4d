package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// App is the process around a command line.
type App struct {
	Env    map[string]string
	Stdout io.Writer // data
	Stderr io.Writer // all else
	JSON   bool      // --json was given

	names map[string]bool // the flags of all commands: the keys that a configuration file may hold
}

// New returns an app. env has the form of os.Environ.
func New(env []string, stdout, stderr io.Writer) *App {
	a := &App{Env: make(map[string]string, len(env)), Stdout: stdout, Stderr: stderr, names: map[string]bool{}}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		a.Env[k] = v
	}
	return a
}

// UsageError is a fault of the command line, the environment or the configuration file.
type UsageError struct {
	Err     error
	Command string // whose help to point to; empty: that of no command
}

// Usage makes err a fault of the usage of a command.
func Usage(err error, command string) error { return &UsageError{err, command} }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Report prints an error for people: one fault a line.
func (a *App) Report(err error) {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if len(lines) == 1 {
		fmt.Fprintf(a.Stderr, "millrace: %s\n", lines[0])
	} else {
		fmt.Fprintf(a.Stderr, "millrace: %d faults:\n", len(lines))
		for _, l := range lines {
			fmt.Fprintf(a.Stderr, "  %s\n", l)
		}
	}
	var usage *UsageError
	if errors.As(err, &usage) && usage.Command != "" {
		fmt.Fprintf(a.Stderr, "Run '%s --help' for its flags.\n", usage.Command)
	}
}

// Root ends the making of a root command: faults of flags and arguments become usage errors, help and completion get
// their places. args are the arguments of the process.
func (a *App) Root(root *cobra.Command, args []string) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(root, args[0])
		}
		return nil
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &UsageError{allUnknown(cmd, args, err), cmd.CommandPath()}
	})
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Print the help of a command", Hidden: true, // a form of --help, with no flags of its own
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, unknown, err := root.Find(args)
			if err != nil || len(unknown) > 0 {
				return unknownCommand(root, strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	})
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		for _, cmd := range append(completion.Commands(), completion) {
			cmd.Args = usageFaults(cmd.Args)
		}
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // else its arguments are not looked at
	}
}

func unknownCommand(root *cobra.Command, name string) error {
	return &UsageError{fmt.Errorf("unknown command %q", name), root.Name()}
}

// usageFaults makes the faults that cobra finds in arguments usage errors.
func usageFaults(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &UsageError{err, cmd.CommandPath()}
		}
		return nil
	}
}

// allUnknown names every unknown flag where pflag stops at the first.
func allUnknown(cmd *cobra.Command, args []string, first error) error {
	if unknown := (*pflag.NotExistError)(nil); !errors.As(first, &unknown) {
		return first
	}
	faults := []error{first}
	for _, arg := range args {
		if arg == "--" {
			break
		}
		name, long := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if fault := fmt.Errorf("unknown flag: --%s", name); long && cmd.Flags().Lookup(name) == nil &&
			!slices.ContainsFunc(faults, func(e error) bool { return e.Error() == fault.Error() }) {
			faults = append(faults, fault)
		}
	}
	return errors.Join(faults...)
}

// Print writes v as JSON if that was asked for, else as text.
func (a *App) Print(v any, text func(w io.Writer)) error {
	var out bytes.Buffer
	if a.JSON {
		enc := json.NewEncoder(&out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false) // addresses hold ampersands
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

// Say writes a line for people to stderr.
func (a *App) Say(format string, args ...any) { fmt.Fprintf(a.Stderr, format+"\n", args...) }
