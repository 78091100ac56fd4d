package indexing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/files"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/tokens"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
)

// packedSuffix is what the place of shards has behind the name of the place of their files.
const packedSuffix = "-shards"

// askForKind names the kinds of objects that lie at a location, and the command that indexes each, with the options that were given.
func askForKind(l location.Location, e *chunkindex.KindsError, given []string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "index %s: objects of several kinds lie here, and an index is of one. Choose:", l)
	command := func(comment string, options ...string) {
		text.WriteString(choice(l, comment, slices.Concat(given, options)...))
	}
	if e.Pairs > 0 {
		text.WriteString(packChoice(l, fmt.Sprintf("%s of several files, such as %s", cli.Count(e.Pairs, "sample", "samples"), cli.Printable(strings.Join(e.Pair, " and ")))))
	}
	loose := 0
	for _, k := range e.Kinds {
		example := cli.Printable(k.Example)
		objects := cli.Count(k.Objects, k.Name+" object", k.Name+" objects")
		switch {
		case k.Refusal != "" && tokens.Named(k.Example):
			text.WriteString(tokensChoice(l, given))
			continue
		case k.Refusal != "":
			fmt.Fprintf(&text, "\n  %s", cli.Printable(k.Refusal))
			continue
		case k.Format:
			objects = cli.Count(k.Objects, k.Name+" shard", k.Name+" shards")
		default:
			objects += ", each a sample"
			loose++
		}
		if k.Match == "" {
			fmt.Fprintf(&text, "\n  %s, such as %s: with a --match that takes them alone", objects, example)
			continue
		}
		command(fmt.Sprintf("%s, such as %s", objects, example), "--match", cli.Quoted(k.Match))
	}
	if loose > 1 && loose == len(e.Kinds) {
		command("all of them, each a sample", "--format", files.Name)
		if e.Pairs == 0 {
			text.WriteString(packChoice(l, "makes shards in which files that differ in the extension alone are one sample"))
		}
	}
	return &question{text.String(), e}
}

// packChoice is the line for files that belong together by their names: pack reads them from a directory and puts the shards beside it.
func packChoice(l location.Location, comment string) string {
	source := cli.Quoted(l.Dir)
	if l.Bucket != "" {
		source, comment = "DIRECTORY", comment+", of a DIRECTORY with a copy of them"
	}
	l.Dir, l.Prefix = l.Dir+packedSuffix, strings.TrimSuffix(l.Prefix, "/")+packedSuffix
	return fmt.Sprintf("\n  millrace pack %s %s  # %s", source, cli.Quoted(l.Shards()), comment)
}

// askForWay says why objects are not indexed as they are, and the command of each way to go on, with the options that were given.
func askForWay(l location.Location, e *format.ChoiceError, opt chunkindex.BuildOptions) error {
	var text strings.Builder
	fmt.Fprintf(&text, "index %s: %s. Choose:", l, cli.Printable(e.Cause))
	for _, w := range e.Ways {
		switch {
		case w.Options != "":
			flag, _, _ := strings.Cut(w.Options, " ")
			text.WriteString(choice(l, w.Effect, append(given(opt, flag), w.Options)...))
		case l.Bucket == "":
			fmt.Fprintf(&text, "\n  cd %s && %s  # %s", cli.Quoted(l.Dir), w.Command, w.Effect)
		default:
			fmt.Fprintf(&text, "\n  %s  # in a copy of the dataset's directory: %s", w.Command, w.Effect)
		}
	}
	return &question{text.String(), e}
}

// choice is a line of a refusal: a command to type, and what it does.
func choice(l location.Location, comment string, options ...string) string {
	return fmt.Sprintf("\n  %s  # %s", strings.Join(slices.Concat([]string{"millrace index", cli.Quoted(l.Address())}, options), " "), comment)
}

// tokensChoice is the line for files of tokens, which do not say what they hold.
func tokensChoice(l location.Location, given []string) string {
	return choice(l, "if these are tokens: 1,024 and the next one are a sample", slices.Concat(given, []string{"--sequence-length 1024 --dtype uint16"})...)
}

// given returns the options that say what an index is of, as a user types them, but those that an answer replaces.
func given(o chunkindex.BuildOptions, replaced ...string) (words []string) {
	add := func(flag, value string) {
		if value != "" && !slices.Contains(replaced, flag) {
			words = append(words, flag, cli.Quoted(value))
		}
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	add("--format", o.Format)
	add("--match", o.Match)
	add("--config", o.Config)
	add("--split", o.Split)
	add("--fields", strings.Join(o.Hints.Fields, ","))
	add("--record-size", number(o.Hints.RecordSize))
	add("--sequence-length", number(o.Hints.SequenceLength))
	add("--dtype", o.Hints.DType)
	add("--key", o.Hints.Key)
	add("--header", o.Hints.Header)
	if o.Hidden {
		words = append(words, "--hidden")
	}
	return words
}
