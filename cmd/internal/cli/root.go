package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Root completes a root command. Faults of flags and arguments become usage errors, and the help,
// the completion command and the common flags are added. args are the arguments of the process.
func (a *App) Root(root *cobra.Command, args []string) {
	a.JSON = slices.Contains(beforeDashes(args), "--json") // so that a fault of the flags is also printed as JSON
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "print only errors on stderr")
	root.PersistentFlags().BoolVarP(&a.Verbose, "verbose", "v", false, "print connections, times and debug logs on stderr")
	root.Flags().BoolP("help", "h", false, "print this help")
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate("{{.Version}}\n")
	onlyHelps(root)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetArgs(args)
	root.SetUsageFunc(printUsage)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &UsageError{allUnknown(cmd, args, err), cmd.CommandPath()}
	})
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Print the help of a command", Hidden: true, // another form of --help, without flags of its own
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, unknown, err := root.Find(args)
			if err != nil || len(unknown) > 0 {
				return unknownCommand(root, args)
			}
			cmd.InitDefaultHelpFlag()
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		},
	})
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		for _, cmd := range append(completion.Commands(), completion) {
			cmd.Args = usageFaults(cmd.Args)
		}
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // otherwise its arguments are ignored
	}
}

// Group makes a command that only contains subcommands.
func Group(name, short, example string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name + " COMMAND", Short: short, Example: example}
	cmd.Flags().BoolP("help", "h", false, "print this help")
	onlyHelps(cmd)
	cmd.AddCommand(commands...)
	return cmd
}

// onlyHelps makes a command print its help, and reject arguments as unknown commands.
func onlyHelps(cmd *cobra.Command) {
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[:1])
		}
		return nil
	}
	cmd.RunE = func(*cobra.Command, []string) error { return cmd.Help() }
}

// beforeDashes returns the arguments before "--", which marks the end of the flags.
func beforeDashes(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i]
	}
	return args
}

func unknownCommand(root *cobra.Command, words []string) error {
	name := strings.Join(words, " ")
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return &UsageError{fmt.Errorf("unknown command %q%s", name, suggest("", name, names)), root.CommandPath()}
}

// usageFaults turns the faults that cobra finds in arguments into usage errors.
func usageFaults(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &UsageError{err, cmd.CommandPath()}
		}
		return nil
	}
}

// allUnknown returns an error that names every unknown flag. pflag names only the first one.
func allUnknown(cmd *cobra.Command, args []string, first error) error {
	if unknown := (*pflag.NotExistError)(nil); !errors.As(first, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return first
	}
	var known []string
	cmd.Flags().VisitAll(func(fl *pflag.Flag) { known = append(known, fl.Name) })
	var seen []string
	var faults []error
	for _, arg := range beforeDashes(args) {
		name, long := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if long && !slices.Contains(known, name) && !slices.Contains(seen, name) {
			seen = append(seen, name)
			faults = append(faults, fmt.Errorf("unknown flag: --%s%s", name, suggest("--", name, known)))
		}
	}
	return errors.Join(faults...)
}

// synonyms returns names that other programs use for a flag. Each has the flag's name here, or an
// address that contains the setting.
func synonyms() map[string]string {
	return map[string]string{
		"address": "listen", "bind": "listen", "port": "listen", "split": "share",
		"s3-endpoint": "s3://bucket/prefix?endpoint=URL", "s3-region": "s3://bucket/prefix?region=NAME", "s3-path-style": "s3://bucket/prefix?path_style=true",
		"s3-ca-file": "s3://bucket/prefix?ca_file=FILE", "s3-max-conns": "s3://bucket/prefix?max_conns=N", "endpoint-url": "s3://bucket/prefix?endpoint=URL",
	}
}

// suggest returns a question whether the closest of the known names was meant. The name must be
// close enough for a typing error, or a synonym. Otherwise the result is empty.
func suggest(before, name string, known []string) string {
	same := synonyms()[name]
	switch {
	case strings.HasPrefix(same, "s3://"):
		return fmt.Sprintf(": set it in the address of the dataset, as in '%s'", same)
	case slices.Contains(known, same):
		return fmt.Sprintf(": did you mean %s%s?", before, same)
	}
	best, least := "", max(2, len(name)/3)+1 // two exchanged letters count as two
	if len(name) < 4 {
		least = 2
	}
	for _, k := range known {
		d := distance(name, k)
		if strings.HasPrefix(k, name) && len(name) > 2 {
			d = 1
		}
		if d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %s%s?", before, best)
}

// distance returns how many letters must be added, removed or replaced to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
