package indexing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
)

// maxAsked is how many splits are listed with their commands: repositories have hundreds of configurations.
const maxAsked = 20

// askForSplit names the splits that lie at a location, and the command that indexes each, with the options that were given.
func askForSplit(l location.Location, e *chunkindex.SplitsError, given []string) error {
	if len(e.Splits) == 0 {
		return fmt.Errorf("index %s: %w", l, e)
	}
	l.IndexName = ""
	var text strings.Builder
	if e.Wanted != "" {
		fmt.Fprintf(&text, "index %s: there is no %s. Choose one of these:", l, cli.Printable(e.Wanted))
	} else {
		fmt.Fprintf(&text, "index %s: several splits lie here, and one index of them would mix them. Choose one:", l)
	}
	command := func(options, comment string) {
		text.WriteString(choice(l, comment, append(slices.Clone(given), options)...))
	}
	for i, s := range e.Splits {
		if i == maxAsked {
			fmt.Fprintf(&text, "\n  and %d more", len(e.Splits)-i)
			break
		}
		command(options(s), fmt.Sprintf("%s, such as %s", cli.Count(s.Shards, "shard", "shards"), cli.Printable(s.Example)))
	}
	if e.Wanted == "" {
		command("--split "+chunkindex.AllSplits, "all of them in one index")
	}
	return &question{text.String(), e}
}

// question is a refusal in words for people, with the commands to type.
type question struct {
	text  string
	cause error
}

func (e *question) Error() string { return e.text }
func (e *question) Unwrap() error { return e.cause }

// options are those that choose a split.
func options(s chunkindex.Split) string {
	if s.Config == "" {
		return "--split " + cli.Quoted(cli.Printable(s.Name))
	}
	return "--config " + cli.Quoted(cli.Printable(s.Config)) + " --split " + cli.Quoted(cli.Printable(s.Name))
}

// IndexName returns the name of the index of a split and a configuration; empty: the default index, which has all splits.
func IndexName(config, split string) string {
	if split == chunkindex.AllSplits {
		split = ""
	}
	return strings.ToLower(strings.Trim(config+"-"+split, "-"))
}
