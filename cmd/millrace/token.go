package main

import (
	"context"
	"fmt"
	"io"
	"time"

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
			var life time.Duration
			f.Duration(&life, "expires", 0, "time until the token expires, such as 90d (0: never)")
			check := func(args []string) {
				if !auth.ValidName(args[0]) || args[0] == auth.Anonymous().Name {
					f.Fault("NAME %.64q: must be letters, digits, dot, dash and underscore, and not %q", args[0], "anonymous")
				}
			}
			return check, func(_ context.Context, args []string) error {
				text, digest := auth.NewToken()
				out, end := map[string]string{"name": args[0], "token": text, "sha256": digest}, ""
				if life > 0 {
					out["expires"] = time.Now().Add(life).UTC().Format(time.RFC3339)
					end = ", expires: " + out["expires"]
				}
				if !a.JSON {
					a.Say("Add to tokens: in the access file:\n  - {name: %s, sha256: %s%s}", args[0], digest, end)
				}
				return a.Print(out, func(w io.Writer) { fmt.Fprintln(w, text) })
			}
		},
	})
}
