package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	helpWidth = 100 // columns of a terminal of usual size
	nameWidth = 34  // of a flag and its placeholder; the text of a longer one stands on the next line
)

// printUsage prints the part of a command's help that follows its description.
func printUsage(cmd *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
			}
		}
	}
	printFlags(&b, cmd.LocalFlags())
	if inherited := cmd.InheritedFlags(); inherited.HasAvailableFlags() {
		b.WriteString("\nFlags of all commands:\n")
		inherited.VisitAll(func(fl *pflag.Flag) { printFlag(&b, fl) })
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// printFlags prints flags under the headings of their sections.
func printFlags(b *strings.Builder, set *pflag.FlagSet) {
	bySection(set, func(section string) {
		if section == "" {
			b.WriteString("\nFlags:\n")
		} else {
			fmt.Fprintf(b, "\nFlags, %s:\n", section)
		}
	}, func(fl *pflag.Flag) { printFlag(b, fl) })
}

// bySection calls begin for each section of the flags and flag for each of its flags. Those without a section come last: as "others", or
// as "" if there are no sections.
func bySection(set *pflag.FlagSet, begin func(section string), flag func(*pflag.Flag)) {
	section := ""
	set.VisitAll(func(fl *pflag.Flag) {
		if s := SectionOf(fl); s != "" {
			if s != section {
				begin(s)
			}
			section = s
			flag(fl)
		}
	})
	if section != "" {
		section = "others"
	}
	begin(section)
	set.VisitAll(func(fl *pflag.Flag) {
		if SectionOf(fl) == "" {
			flag(fl)
		}
	})
}

// printFlag prints a flag, its placeholder, what it means and its default.
func printFlag(b *strings.Builder, fl *pflag.Flag) {
	if fl.Hidden {
		return
	}
	placeholder, text := pflag.UnquoteUsage(fl)
	name := "      --" + fl.Name
	if fl.Shorthand != "" {
		name = "  -" + fl.Shorthand + ", --" + fl.Name
	}
	if placeholder != "" {
		name += " " + placeholder
	}
	if hasDefault(fl.DefValue) {
		text += fmt.Sprintf(" (default %s)", fl.DefValue)
	}
	if len(name) > nameWidth {
		fmt.Fprintln(b, name)
		name = ""
	}
	for _, line := range wrap(text, helpWidth-nameWidth-2) {
		fmt.Fprintf(b, "%-*s  %s\n", nameWidth, name, line)
		name = ""
	}
}

// hasDefault reports whether a default says more than that a flag is off, or counts nothing.
func hasDefault(text string) bool {
	switch text {
	case "", "false", "0", "0B", "0s", "[]":
		return false
	}
	return true
}

// wrap divides a text into lines of so many columns at most, if its words are no longer.
func wrap(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
