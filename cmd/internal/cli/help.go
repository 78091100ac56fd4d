package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	helpWidth = 100 // columns of the terminal that the help is made for
	nameWidth = 36  // maximum columns of a flag and its placeholder
)

// manualNote is the annotation that holds the continuation of a command's description.
const manualNote = "millrace_manual"

// printUsage prints the part of a command's help that follows its description.
func printUsage(cmd *cobra.Command) error {
	var b strings.Builder
	usage(&b, cmd)
	if shortened(cmd) {
		b.WriteString("\nFlags:\n")
		printFlags(&b, cmd.Flags(), func(fl *pflag.Flag) bool {
			_, main := fl.Annotations[mainNote]
			return main || visible(fl) && SectionOf(fl) == "" && fl.Name != "json"
		})
		fmt.Fprintf(&b, "\nRun '%s --help-all' for all flags and settings.\n", cmd.CommandPath())
	} else {
		printSections(&b, cmd)
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// usage prints the synopsis, the examples and the commands below cmd.
func usage(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, g := range append(cmd.Groups(), &cobra.Group{Title: "Commands"}) {
		heading := "\n" + g.Title + ":\n"
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() && c.GroupID == g.ID {
				fmt.Fprintf(b, "%s  %-11s %s\n", heading, c.Name(), c.Short)
				heading = ""
			}
		}
	}
}

// printSections prints all flags of a command under the headings of their sections, and the settings without a flag.
func printSections(b *strings.Builder, cmd *cobra.Command) {
	set := cmd.LocalFlags()
	for _, section := range sectionsOf(set) {
		heading := "\nFlags, " + section + ":\n"
		if section == "" && shortened(cmd) {
			heading = "\nFlags, others:\n"
		} else if section == "" {
			heading = "\nFlags:\n"
		}
		b.WriteString(heading)
		printFlags(b, set, func(fl *pflag.Flag) bool { return visible(fl) && SectionOf(fl) == section })
	}
	if inherited := cmd.InheritedFlags(); inherited.HasAvailableFlags() {
		b.WriteString("\nFlags of all commands:\n")
		printFlags(b, inherited, visible)
	}
	if shortened(cmd) {
		b.WriteString("\nSettings without a flag, set by MILLRACE_... variables or --config:\n")
		printFlags(b, set, func(fl *pflag.Flag) bool { return !visible(fl) && SectionOf(fl) != "" })
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(b, "\nRun '%s COMMAND --help' for the help of a command.\n", cmd.CommandPath())
	}
}

// sectionsOf returns the names of the sections with visible flags, in their order. "" is the last
// one.
func sectionsOf(set *pflag.FlagSet) (names []string) {
	set.VisitAll(func(fl *pflag.Flag) {
		if s := SectionOf(fl); s != "" && visible(fl) && !slices.Contains(names, s) {
			names = append(names, s)
		}
	})
	return append(names, "")
}

// fullHelp returns the whole help of a command, as printed by --help-all.
func fullHelp(cmd *cobra.Command) string {
	var b strings.Builder
	for _, text := range []string{cmp.Or(cmd.Long, cmd.Short), cmd.Annotations[manualNote]} {
		if text != "" {
			fmt.Fprintf(&b, "%s\n\n", text)
		}
	}
	usage(&b, cmd)
	printSections(&b, cmd)
	return b.String()
}

// shortened reports whether the help of a command shows only its main flags.
func shortened(cmd *cobra.Command) bool { return cmd.Flags().Lookup("help-all") != nil }

func visible(fl *pflag.Flag) bool { return !fl.Hidden }

// printFlags prints the flags of a set that match: name, placeholder, meaning and default, in two columns.
func printFlags(b *strings.Builder, set *pflag.FlagSet, match func(*pflag.Flag) bool) {
	var rows [][2]string
	width := 0
	set.VisitAll(func(fl *pflag.Flag) {
		if match(fl) {
			name, text := described(fl)
			rows = append(rows, [2]string{name, text})
			width = max(width, min(len(name), nameWidth))
		}
	})
	for _, row := range rows {
		name := row[0]
		for _, line := range wrap(row[1], helpWidth-width-2) {
			fmt.Fprintf(b, "%-*s  %s\n", width, name, line)
			name = ""
		}
	}
}

// described returns a flag with its placeholder, and the flag's description with the default.
func described(fl *pflag.Flag) (name, text string) {
	placeholder, text := pflag.UnquoteUsage(fl)
	name = "      --" + fl.Name
	switch {
	case fl.Hidden:
		name = "      " + fl.Name
	case fl.Shorthand != "":
		name = "  -" + fl.Shorthand + ", --" + fl.Name
	}
	if placeholder != "" {
		name += " " + placeholder
	}
	if hasDefault(fl.DefValue) {
		text += fmt.Sprintf(" (default %s)", fl.DefValue)
	}
	return name, text
}

// hasDefault reports whether a default is worth printing: it is neither off nor zero.
func hasDefault(text string) bool {
	switch text {
	case "", "false", "0", "0B", "0s", "[]":
		return false
	}
	return true
}

// wrap divides a text into lines of at most columns columns. A longer word gets its own line.
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
