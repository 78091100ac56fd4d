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

// helpWidth is the width of the terminal that the help is made for, in columns.
const helpWidth = 100

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
	for _, section := range append(sectionsOf(set), "") {
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

// sectionsOf returns the names of the sections, in their order.
func sectionsOf(set *pflag.FlagSet) (names []string) {
	set.VisitAll(func(fl *pflag.Flag) {
		if s := SectionOf(fl); s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	})
	return names
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
// Settings without a flag have no dashes.
func printFlags(b *strings.Builder, set *pflag.FlagSet, match func(*pflag.Flag) bool) {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = false
	bare := []string{}
	set.VisitAll(func(fl *pflag.Flag) {
		if match(fl) {
			one := *fl
			if one.Hidden = false; fl.Hidden {
				bare = append(bare, "      --"+fl.Name, "        "+fl.Name)
			}
			shown.AddFlag(&one)
		}
	})
	b.WriteString(strings.NewReplacer(bare...).Replace(shown.FlagUsagesWrapped(helpWidth)))
}
