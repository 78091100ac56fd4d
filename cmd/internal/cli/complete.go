package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// complete registers shell completions: the words of a flag with choices, files or directories for
// their placeholders, and otherwise nothing. Without a registration a shell would complete files.
func complete(cmd *cobra.Command, want arguments) {
	cmd.Flags().VisitAll(func(fl *pflag.Flag) {
		placeholder, _ := pflag.UnquoteUsage(fl)
		words, directive := []string(nil), directiveOf(placeholder)
		if choice, ok := fl.Value.(interface{ choices() []string }); ok {
			words = choice.choices()
		}
		// The only possible error is that the flag already has a completion.
		_ = cmd.RegisterFlagCompletionFunc(fl.Name, cobra.FixedCompletions(words, directive))
	})
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= want.most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, directiveOf(want.names[min(len(args), len(want.names)-1)])
	}
}

// directiveOf returns the completion of a placeholder or an argument.
func directiveOf(placeholder string) cobra.ShellCompDirective {
	switch {
	case placeholder == "FILE", placeholder == "SOURCE":
		return cobra.ShellCompDirectiveDefault
	case placeholder == "DIR", placeholder == "URL-OR-DIR", placeholder == "DESTINATION", strings.HasSuffix(placeholder, "DATASET"):
		return cobra.ShellCompDirectiveFilterDirs
	}
	return cobra.ShellCompDirectiveNoFileComp
}
