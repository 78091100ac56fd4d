package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/gateway/auth"
)

func (a *app) token() *cobra.Command {
	return a.Build(cli.Command{
		Use: "token NAME", Short: "Create an access token for clients of a gateway",
		Long: `Prints a new token on stdout, and the line for the access file on stderr. The line contains only the
token's digest. Clients read the token from MILLRACE_TOKEN or the file of MILLRACE_TOKEN_FILE.`,
		Example: "  millrace token trainer\n  export MILLRACE_TOKEN=$(millrace token trainer)",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			f.Output(a.App)
			check := func(args []string) {
				if !auth.ValidName(args[0]) || args[0] == auth.Anonymous().Name {
					f.Fault("NAME %.64q: must be letters, digits, dot, dash and underscore, and not %q", args[0], "anonymous")
				}
			}
			return check, func(_ context.Context, args []string) error {
				text, digest := auth.NewToken()
				line := fmt.Sprintf("- {name: %s, sha256: %s}", args[0], digest)
				if !a.JSON {
					a.Say("Add to tokens: in the access file:\n  %s", line)
				}
				return a.Print(map[string]string{"name": args[0], "token": text, "sha256": digest}, func(w io.Writer) { fmt.Fprintln(w, text) })
			}
		},
	})
}
