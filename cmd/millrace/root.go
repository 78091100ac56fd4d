package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is what every command needs of the process around it.
type app struct {
	env    map[string]string
	stdout io.Writer
	stderr io.Writer
	json   bool
	names  map[string]bool // every flag of every command: the keys that a configuration file may hold
}

// run is the program, without the process: it returns the exit code.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	a := &app{env: environment(env), stdout: stdout, stderr: stderr, names: map[string]bool{}}
	root := a.root(args)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(ctx, err)
	a.report(err, code)
	return code
}

func environment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	return m
}

// report prints an error the way a person wants to read it: one fault a line.
func (a *app) report(err error, code int) {
	if code == exitInterrupted {
		fmt.Fprintln(a.stderr, "millrace: interrupted")
		return
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if len(lines) == 1 {
		fmt.Fprintf(a.stderr, "millrace: %s\n", lines[0])
	} else {
		fmt.Fprintf(a.stderr, "millrace: %d faults:\n", len(lines))
		for _, l := range lines {
			fmt.Fprintf(a.stderr, "  %s\n", l)
		}
	}
	var usage *usageError
	if errors.As(err, &usage) && usage.command != "" {
		fmt.Fprintf(a.stderr, "Run '%s --help' for its flags.\n", usage.command)
	}
}

const rootLong = `Millrace is a training-data gateway. Point it at shards in any S3-compatible bucket
and every machine that trains reads its shuffled batches with one HTTP GET:

    curl http://gateway:8080/epoch/0/batch/17 | tar -t

Every flag can also be set by the environment (--cache-size is MILLRACE_CACHE_SIZE)
and in a YAML file named by --config (cache-size: 16GiB). A flag goes before the
environment, the environment before the file, the file before the default.

Exit codes: 0 ok, 1 failure, 2 usage or configuration, 3 corruption found,
4 not found, 5 store unreachable or denied, 130 interrupted.`

func (a *app) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:           "millrace",
		Short:         "Shuffled batches of training data by URL",
		Long:          rootLong,
		Example:       "  millrace demo\n  millrace index s3://bucket/imagenet\n  millrace serve --dataset imagenet=s3://bucket/imagenet --cache-size 16GiB",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("unknown command %q", args[0]), "millrace"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{allUnknown(cmd, args, err), cmd.CommandPath()}
	})
	root.AddCommand(a.demo(), a.pack(), a.index(), a.serve(), a.fetch(), a.plan(), a.warm(), a.simulate(), a.subset(), a.quarantine(), a.verify(), a.gc(), a.bench(), a.version())
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Print the help of a command", Hidden: true, // a form of --help, with no flags of its own
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, unknown, err := root.Find(args)
			if err != nil || len(unknown) > 0 {
				return &usageError{fmt.Errorf("unknown command %q", strings.Join(args, " ")), "millrace"}
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
	return root
}

// usageFaults gives what cobra finds wrong with arguments the exit code that our own findings have.
func usageFaults(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err, cmd.CommandPath()}
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

// print writes v as JSON if that was asked for, else as text.
func (a *app) print(v any, text func(w io.Writer)) error {
	var out bytes.Buffer
	if a.json {
		enc := json.NewEncoder(&out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false) // addresses hold ampersands
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	} else {
		text(&out)
	}
	if _, err := a.stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// say writes a line for people to stderr.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }
