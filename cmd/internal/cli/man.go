package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// man is the command that writes the manual: a page for the program and one for each command. Those that package the program
// call it, so the help does not list it.
func (a *App) man(root *cobra.Command) *cobra.Command {
	cmd := a.Build(Command{
		Use: "man DIR", Short: "Write the manual's pages to a directory",
		Setup: func(*Flags) (func([]string), func(context.Context, []string) error) {
			return nil, func(_ context.Context, args []string) error {
				if err := os.MkdirAll(args[0], 0o755); err != nil {
					return fmt.Errorf("write the manual: %w", err)
				}
				return writePages(args[0], root)
			}
		},
	})
	cmd.Hidden = true
	return cmd
}

// writePages writes the page of a command, and those of the commands below it.
func writePages(dir string, cmd *cobra.Command) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(page(cmd, name)), 0o644); err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "completion" {
			if err := writePages(dir, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// page is a page of the manual, in the language of man.
func page(cmd *cobra.Command, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"millrace %s\" \"Millrace\"\n", roff(strings.ToUpper(name)), roff(ReadProgram().Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n", roff(name), roff(cmd.Short), roff(cmd.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	if cmd.Long == "" {
		b.WriteString(roff(cmd.Short) + ".\n")
	}
	prose(&b, cmd.Long)
	options(&b, "OPTIONS", cmd.LocalFlags())
	options(&b, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		verbatim(&b, cmd.Example)
	}
	b.WriteString(".SH SEE ALSO\n")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "completion" {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(name+"-"+c.Name()), roff(c.Short))
		}
	}
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".BR %s (1)\n", roff(strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-")))
	}
	return b.String()
}

// prose writes paragraphs. Those with indented lines keep their lines.
func prose(b *strings.Builder, text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, "  ") || strings.Contains(paragraph, "\n  ") {
			verbatim(b, paragraph)
		} else if paragraph != "" {
			fmt.Fprintln(b, roff(paragraph))
		}
	}
}

func verbatim(b *strings.Builder, text string) {
	fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(text))
}

// options writes what each flag means, below the headings of their sections.
func options(b *strings.Builder, heading string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", heading)
	bySection(set, func(section string) {
		if section != "" {
			fmt.Fprintf(b, ".SS %s\n", roff(section))
		}
	}, func(fl *pflag.Flag) { option(b, fl) })
}

func option(b *strings.Builder, fl *pflag.Flag) {
	if fl.Hidden {
		return
	}
	placeholder, text := pflag.UnquoteUsage(fl)
	name := "--" + fl.Name
	if fl.Shorthand != "" {
		name = "-" + fl.Shorthand + ", " + name
	}
	if hasDefault(fl.DefValue) {
		text += fmt.Sprintf(" (default %s)", fl.DefValue)
	}
	fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roff(name))
	if placeholder != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(placeholder))
	}
	fmt.Fprintf(b, "\n%s\n", roff(text))
}

// roff escapes a text: backslashes, hyphens that are part of a command, and what would be a request at the beginning of a line.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
