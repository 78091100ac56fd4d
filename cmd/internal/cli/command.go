package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace-data/millrace/internal/words"
)

// Command describes one command.
type Command struct {
	// Use is the command's name, its arguments, and its required flags: "pack SOURCE...
	// DESTINATION". An argument in brackets is optional; one with three dots may be repeated.
	Use string

	Short, Long, Example string

	Manual string // continues Long in the help with all flags

	Settings bool // flags with a section are settings: the environment and a configuration file can set them too; no --json

	// Setup defines the flags. It returns a check of their values, which may be nil, and the body of the command.
	Setup func(f *Flags) (check func(args []string), body func(ctx context.Context, args []string) error)
}

// Build makes the cobra command. It reads flags, environment and file, then reports all faults at
// once, then runs the body.
func (a *App) Build(c Command) *cobra.Command {
	cmd := &cobra.Command{Use: c.Use, Short: c.Short, Long: c.Long, Example: c.Example, Annotations: map[string]string{manualNote: c.Manual}}
	cmd.Flags().BoolP("help", "h", false, "print this help")
	var check func(args []string)
	var body func(ctx context.Context, args []string) error
	flags := a.Flags
	if c.Settings {
		flags = a.Settings
	}
	f := flags(cmd.Flags(), func(f *Flags) {
		if check, body = c.Setup(f); !c.Settings {
			f.Flag(&a.JSON, "json", "print JSON")
		}
	})
	want := argumentsOf(c.Use)
	complete(cmd, want)
	cmd.Args = func(_ *cobra.Command, args []string) error { want.check(f, args); return nil }
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if f.helpAll {
			_, err := io.WriteString(a.Stdout, fullHelp(cmd))
			return err
		}
		if a.quiet && a.Verbose {
			f.Fault("--quiet and --verbose exclude each other")
		}
		if a.quiet {
			a.Stderr = io.Discard
		}
		if c.Settings {
			f.Load()
		}
		// A check may rely on the arguments. Without them the faults found so far suffice.
		if check != nil && len(args) >= want.least {
			check(args)
		}
		if err := f.Err(); err != nil {
			return &UsageError{err, cmd.CommandPath()}
		}
		if !a.Verbose || c.Settings { // a command with settings writes a log instead
			return body(cmd.Context(), args)
		}
		start := time.Now()
		err := body(a.Detail(cmd.Context()), args)
		a.Say("%s: took %.3f s", cmd.CommandPath(), time.Since(start).Seconds())
		return err
	}
	return cmd
}

// arguments are the positional arguments of a command.
type arguments struct {
	names       []string // names in order, without brackets and dots
	least, most int
}

const manyArguments = 1 << 30 // no limit

// argumentsOf parses the arguments of a usage line.
func argumentsOf(use string) arguments {
	var a arguments
	isValue := true // the first word is the command's name, and a word after a flag is the flag's value
	for _, word := range strings.Fields(use) {
		switch {
		case strings.HasPrefix(word, "--"):
			isValue = true
		case isValue:
			isValue = false
		default:
			name, repeated := strings.CutSuffix(word, "...")
			if strings.HasPrefix(word, "[") {
				name = strings.Trim(name, "[]")
			} else {
				a.least++
			}
			a.names = append(a.names, name)
			a.most++
			if repeated {
				a.most = manyArguments
			}
		}
	}
	return a
}

// check records a fault if there are too few or too many arguments.
func (a arguments) check(f *Flags, args []string) {
	expected := "no argument"
	if len(a.names) > 0 {
		expected = strings.Join(a.names, " and ")
	}
	switch n := len(args); {
	case n < a.least && n == 0:
		f.Fault("expected %s, got no argument", expected)
	case n < a.least:
		f.Fault("expected %s, got %s", expected, words.Count(n, "argument", "arguments"))
	case n > a.most:
		f.Fault("expected %s, got %s: %q is one too many", expected, words.Count(n, "argument", "arguments"), f.app.Hide(args[a.most]))
	}
}

// Flags is a command's flag set. It collects all faults instead of stopping at the first one.
type Flags struct {
	Set *pflag.FlagSet

	app         *App
	section     string // section of the flags that are being defined
	file        string
	helpAll     bool // --help-all
	main        bool // the next flag is listed in the short help
	settingOnly bool // the next setting has no flag
	faults      []error
	source      map[string]string // environment or file, by the name of a flag that was set there
}

// Flags makes the flags of a command by calling define.
func (a *App) Flags(set *pflag.FlagSet, define func(f *Flags)) *Flags {
	f := &Flags{Set: set, app: a, source: map[string]string{}}
	f.Set.SortFlags = false
	define(f)
	return f
}

// Annotations of flags.
const (
	sectionNote = "millrace_section" // the section's name
	mainNote    = "millrace_main"    // the short help shows the flag
)

// Section begins a section of flags, which is a heading in the help and in a configuration file.
func (f *Flags) Section(name string) { f.section = name }

// Main marks the next flag for the short help of a command with settings. --help-all lists all
// flags.
func (f *Flags) Main() *Flags {
	f.main = true
	return f
}

// SettingOnly hides the flag of the next setting: only the environment and the configuration file can set it.
func (f *Flags) SettingOnly() *Flags {
	f.settingOnly = true
	return f
}

// NameOf returns the name of a setting for messages: --NAME for a flag, NAME for a setting without a flag.
func (f *Flags) NameOf(name string) string {
	if fl := f.Set.Lookup(name); fl != nil && !fl.Hidden {
		return "--" + name
	}
	return name
}

// SectionOf returns the section of a flag, or "".
func SectionOf(fl *pflag.Flag) string {
	if note := fl.Annotations[sectionNote]; len(note) > 0 {
		return note[0]
	}
	return ""
}

// Fault records a fault of the command line, the environment or the file.
func (f *Flags) Fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf(format, args...))
}

// Err returns all faults so far, or nil.
func (f *Flags) Err() error { return errors.Join(f.faults...) }

// Missing reports that a flag without a value is missing. An invalid value has its own fault.
func (f *Flags) Missing(name string) bool { return f.Err() == nil || !f.Set.Changed(name) }

// CommandLine returns the typed command without some flags, and without secrets.
func (f *Flags) CommandLine(name string, args []string, without ...string) string {
	typed := []string{"millrace", name}
	for _, a := range args {
		typed = append(typed, words.Quoted(f.app.Hide(a)))
	}
	f.Set.Visit(func(fl *pflag.Flag) {
		switch {
		case slices.Contains(without, fl.Name):
		case fl.Value.Type() == "bool":
			typed = append(typed, strings.TrimSuffix("--"+fl.Name+"="+fl.Value.String(), "=true"))
		default:
			typed = append(typed, "--"+fl.Name, words.Quoted(f.app.Hide(fl.Value.String())))
		}
	})
	return strings.Join(typed, " ")
}
