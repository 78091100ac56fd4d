package indexing

import (
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/words"
)

// maxAsked is the maximum number of splits listed with their commands. Some repositories have
// hundreds of configurations.
const maxAsked = 20

// askForSplit lists the splits at a location. For each it suggests the command that indexes it,
// with the given options.
func askForSplit(l location.Location, e *build.SplitsError, given cli.Options) error {
	if len(e.Splits) == 0 {
		return &cli.Refusal{Advice: cli.Advice{Message: fmt.Sprintf("index %s: %s", l, e)}, Cause: e}
	}
	l.IndexName = ""
	a := cli.Advice{Message: fmt.Sprintf("index %s: the dataset has several splits, and one index of all would mix them", l)}
	if e.Wanted != "" {
		a.Message = fmt.Sprintf("index %s: there is no %s", l, words.Printable(e.Wanted))
	}
	for i, s := range e.Splits {
		if i == maxAsked {
			a.Cure = fmt.Sprintf("and %d more", len(e.Splits)-i)
			break
		}
		a.Choices = append(a.Choices, choice(l, fmt.Sprintf("%s, such as %s", words.Count(s.Shards, "shard", "shards"), words.Printable(s.Example)), given, options(s)...))
	}
	if e.Wanted == "" {
		a.Choices = append(a.Choices, choice(l, "index all of them as one", given, cli.Option{Flag: "split", Value: build.AllSplits}))
	}
	return &cli.Refusal{Advice: a, Cause: e}
}

// options returns the options that select a split.
func options(s build.Split) cli.Options {
	split := cli.Option{Flag: "split", Value: words.Printable(s.Name)}
	if s.Config == "" {
		return cli.Options{split}
	}
	return cli.Options{{Flag: "hf-config", Value: words.Printable(s.Config)}, split}
}

// IndexName returns the name of the index for a split of a configuration. It is empty for the
// default index, which contains all splits.
func IndexName(config, split string) string {
	if split == build.AllSplits {
		split = ""
	}
	return strings.ToLower(strings.Trim(config+"-"+split, "-"))
}
