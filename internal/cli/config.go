package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Command describes one command.
type Command struct {
	Use, Short, Long, Example string

	Args int  // how many arguments at least
	More bool // more arguments than Args may be given

	// Setup defines the flags. It returns a check of their values, which may be nil, and the body of the command.
	Setup func(f *Flags) (check func(args []string), body func(ctx context.Context, args []string) error)
}

// Build makes the cobra command: flags, environment and file first, then all faults at
// once, then the body.
func (a *App) Build(c Command) *cobra.Command {
	cmd := &cobra.Command{Use: c.Use, Short: c.Short, Long: c.Long, Example: c.Example, DisableFlagsInUseLine: true}
	var check func(args []string)
	var body func(ctx context.Context, args []string) error
	f := a.Flags(cmd.Flags(), func(f *Flags) { check, body = c.Setup(f) })
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < c.Args:
			f.Fault("%s: %d arguments, want %d: %s", cmd.CommandPath(), len(args), c.Args, c.Use)
		case len(args) > c.Args && !c.More:
			f.Fault("%s: argument %q is one too many", cmd.CommandPath(), args[c.Args])
		}
		return nil
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		f.Load()
		// A check may count on the arguments; without them the faults so far say enough.
		if check != nil && len(args) >= c.Args {
			check(args)
		}
		if err := f.Err(); err != nil {
			return &UsageError{err, cmd.CommandPath()}
		}
		return body(cmd.Context(), args)
	}
	return cmd
}

// Flags is a command's flag set that collects faults instead of stopping at the first one.
type Flags struct {
	Set *pflag.FlagSet

	app    *App
	file   string
	faults []error
	source map[string]string // flag → environment or file, for those set there
}

// Flags makes the flags of a command, which define defines, and adds --config.
func (a *App) Flags(set *pflag.FlagSet, define func(f *Flags)) *Flags {
	f := &Flags{Set: set, app: a, source: map[string]string{}}
	f.Set.SortFlags = false
	define(f)
	f.Text(&f.file, "config", "", "`FILE` with settings in YAML, keys as the flags")
	f.Set.VisitAll(func(fl *pflag.Flag) { a.names[fl.Name] = true })
	return f
}

// Fault records a fault of the command line, the environment or the file.
func (f *Flags) Fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf(format, args...))
}

// Err returns all faults so far, or nil.
func (f *Flags) Err() error { return errors.Join(f.faults...) }

// Source returns the place that set a flag, other than the command line: a variable, or a line of the file; "" for none.
func (f *Flags) Source(name string) string { return f.source[name] }

// Variable is the name of a flag in the environment.
func Variable(flag string) string {
	return "MILLRACE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Load fills the flags that the command line left alone: from the environment, then from the file.
func (f *Flags) Load() {
	a := f.app
	f.Set.VisitAll(func(fl *pflag.Flag) {
		if v, ok := a.Env[Variable(fl.Name)]; ok && !fl.Changed {
			f.assign(fl, Variable(fl.Name), []string{v})
		}
	})
	f.unknownVariables(a)
	if f.file == "" {
		return
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		f.Fault("--config: %w", err)
		return
	}
	keys, err := parseFile(text)
	if err != nil {
		f.Fault("%s: %w", f.file, err)
		return
	}
	for _, k := range keys {
		fl := f.Set.Lookup(k.name)
		switch {
		case k.name == "config" || !a.names[k.name]:
			f.Fault("%s:%d: unknown key %q", f.file, k.line, k.name)
		case fl != nil && !fl.Changed && f.source[fl.Name] == "":
			f.assign(fl, fmt.Sprintf("%s:%d", f.file, k.line), k.values)
		}
	}
}

// unknownVariables refuses a MILLRACE_ variable that no command knows: most likely a slip of the pen.
func (f *Flags) unknownVariables(a *App) {
	var names []string
	for k := range a.Env {
		if strings.HasPrefix(k, "MILLRACE_") {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(k, "MILLRACE_"), "_", "-"))
		if !a.names[flag] && !reserved(k) && !serviceLink(k, a.Env[k]) {
			f.Fault("environment: unknown variable %s", k)
		}
	}
}

// reserved reports the variables that belong to the tests.
func reserved(name string) bool {
	return name == "MILLRACE_LONG" || strings.HasPrefix(name, "MILLRACE_TEST_")
}

// serviceVariable is the form of most variables that Kubernetes sets for a service.
var serviceVariable = regexp.MustCompile(`^MILLRACE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceLink reports the variables that Kubernetes puts into every container of a namespace that has a service called
// millrace, or millrace-something: nobody wrote them, so they are nobody's slip.
func serviceLink(name, value string) bool {
	return serviceVariable.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// assign sets a flag from somewhere else than the command line. The flag stays unchanged
// for pflag, so that the source of each value is known.
func (f *Flags) assign(fl *pflag.Flag, from string, values []string) {
	f.source[fl.Name] = from
	before := len(f.faults)
	for _, v := range values {
		if err := fl.Value.Set(v); err != nil {
			f.Fault("--%s: %w", fl.Name, err)
		}
	}
	for i := before; i < len(f.faults); i++ {
		f.faults[i] = fmt.Errorf("%s: %w", from, f.faults[i])
	}
}

// fileKey is one setting of a configuration file.
type fileKey struct {
	name   string
	line   int
	values []string
}

// parseFile reads a flat YAML mapping whose values are scalars or lists of scalars.
func parseFile(text []byte) ([]fileKey, error) {
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc); err != nil {
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, nil
		}
		return nil, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("want a mapping of settings")
	}
	var keys []fileKey
	seen := map[string]bool{}
	pairs := doc.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		k, v := pairs[i], pairs[i+1]
		key := fileKey{name: k.Value, line: k.Line}
		if seen[k.Value] {
			return nil, fmt.Errorf("line %d: key %q is given twice", k.Line, k.Value)
		}
		seen[k.Value] = true
		switch v.Kind {
		case yaml.ScalarNode:
			key.values = []string{v.Value}
		case yaml.SequenceNode:
			for _, e := range v.Content {
				if e.Kind != yaml.ScalarNode {
					return nil, fmt.Errorf("line %d: key %q: want a list of plain values", e.Line, k.Value)
				}
				key.values = append(key.values, e.Value)
			}
		default:
			return nil, fmt.Errorf("line %d: key %q: want a plain value or a list", v.Line, k.Value)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
