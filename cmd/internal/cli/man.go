package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// man returns the command that writes the manual: a page for the program and one for each command.
// It is hidden in the help, because only packagers of the program use it.
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

// writePages writes the manual page of a command, and those of its subcommands.
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

// page returns the manual page of a command: its help, in the language of man.
func page(cmd *cobra.Command, name string) string {
	return fmt.Sprintf(".TH %s 1 \"\" \"millrace %s\" \"Millrace\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n%s\n.fi\n",
		roff(strings.ToUpper(name)), roff(ReadProgram().Version), roff(name), roff(cmd.Short), roff(fullHelp(cmd)))
}

// roff escapes backslashes, hyphens, and characters that would be requests at the beginning of a
// line.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
