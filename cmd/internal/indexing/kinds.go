package indexing

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/tokens"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/words"
)

// packedSuffix ends the name of the directory for packed shards.
const packedSuffix = "-shards"

// askForKind lists the kinds of objects at a location. For each it suggests the command that
// indexes it, with the given options.
func askForKind(l location.Location, e *build.KindsError, given cli.Options) error {
	a := cli.Advice{Message: fmt.Sprintf("index %s: several kinds of objects found, but an index can contain only one kind", l)}
	if e.Pairs > 0 {
		a.Choices = append(a.Choices, packChoice(l, fmt.Sprintf("%s of several files, such as %s", words.Count(e.Pairs, "sample", "samples"), words.Printable(strings.Join(e.Pair, " and ")))))
	}
	table := tableOf(e.Kinds)
	if table != "" {
		c := packChoice(l, "makes shards in which each sample has its row of "+words.Printable(table)+", as .json")
		if !strings.HasPrefix(path.Base(table), "metadata.") {
			c.Command += " --table " + words.Quoted(filepath.Join(l.Dir, filepath.FromSlash(table)))
		}
		a.Choices = append(a.Choices, c)
	}
	loose := 0
	for _, k := range e.Kinds {
		example := words.Printable(k.Example)
		objects := words.Count(k.Objects, k.Name+" object", k.Name+" objects")
		switch {
		case k.Refusal != "" && tokens.Named(k.Example):
			a.Choices = append(a.Choices, tokensChoice(l, given))
			continue
		case k.Refusal != "":
			a.Message += "; " + words.Printable(k.Refusal)
			continue
		case k.Format:
			objects = words.Count(k.Objects, k.Name+" shard", k.Name+" shards")
		default:
			objects += ", each a sample"
			loose++
		}
		if k.Match == "" {
			a.Message += fmt.Sprintf("; %s, such as %s, require a --match that selects only these", objects, example)
			continue
		}
		a.Choices = append(a.Choices, choice(l, fmt.Sprintf("%s, such as %s", objects, example), given, cli.Option{Flag: "match", Value: k.Match}))
	}
	if loose > 1 && loose == len(e.Kinds) {
		a.Choices = append(a.Choices, choice(l, "index all of them, each as one sample", given, cli.Option{Flag: "format", Value: framing.Files}))
		if e.Pairs == 0 && table == "" {
			a.Choices = append(a.Choices, packChoice(l, "makes shards in which files that differ only in the extension are one sample"))
		}
	}
	return &cli.Refusal{Advice: a, Cause: e}
}

// tableOf returns the only object that may be a table of rows that name the others; "": none.
func tableOf(kinds []build.Kind) (table string) {
	for _, k := range kinds {
		switch ext := path.Ext(k.Example); {
		case k.Objects == 1 && (ext == ".json" || ext == ".jsonl" || ext == ".csv") && table == "":
			table = k.Example
		case k.Format || k.Refusal != "":
			return ""
		}
	}
	return table
}

// packChoice returns the command for files that belong together by their names. pack reads them
// from a directory and stores the shards next to it.
func packChoice(l location.Location, effect string) cli.Choice {
	source := words.Quoted(l.Dir)
	if l.Bucket != "" {
		source, effect = "DIRECTORY", effect+", of a DIRECTORY with a copy of them"
	}
	l.Dir, l.Prefix = l.Dir+packedSuffix, strings.TrimSuffix(l.Prefix, "/")+packedSuffix
	return cli.Choice{Command: fmt.Sprintf("millrace pack %s %s", source, words.Quoted(l.Shards())), Effect: effect}
}

// askForWay explains why objects cannot be indexed as they are. For each solution it suggests a
// command, with the given options.
func askForWay(l location.Location, e *format.ChoiceError, opt build.Options) error {
	a := cli.Advice{Message: fmt.Sprintf("index %s: %s", l, words.Printable(e.Cause))}
	for _, w := range e.Ways {
		c := cli.Choice{Command: w.Command, Effect: w.Effect}
		switch {
		case w.Flag != "":
			c = choice(l, w.Effect, given(opt, w.Flag), cli.Option{Flag: w.Flag, Value: w.Value})
		case l.Bucket == "":
			c.Command = fmt.Sprintf("cd %s && %s", words.Quoted(l.Dir), w.Command)
		default:
			c.Effect = "in a copy of the dataset's directory: " + w.Effect
		}
		a.Choices = append(a.Choices, c)
	}
	return &cli.Refusal{Advice: a, Cause: e}
}

// choice returns a command that indexes a location with the given options and some more.
func choice(l location.Location, effect string, given cli.Options, more ...cli.Option) cli.Choice {
	all := slices.Concat(given, more)
	return cli.Choice{Command: strings.Join([]string{"millrace index", words.Quoted(l.Address()), all.String()}, " "), Options: all, Effect: effect}
}

// tokensChoice returns the command for files of tokens, which have no header.
func tokensChoice(l location.Location, given cli.Options) cli.Choice {
	return choice(l, "if these are tokens: a sample is 1,024 tokens and the next one", given,
		cli.Option{Flag: "sequence-length", Value: 1024}, cli.Option{Flag: "dtype", Value: "uint16"})
}

// given returns the options of a user that select the objects of an index, except replaced ones.
func given(o build.Options, replaced ...string) (all cli.Options) {
	add := func(flag string, value any, set bool) {
		if set && !slices.Contains(replaced, flag) {
			all = append(all, cli.Option{Flag: flag, Value: value})
		}
	}
	h := o.Hints
	add("format", o.Format, o.Format != "")
	add("match", o.Match, o.Match != "")
	add("hf-config", o.Config, o.Config != "")
	add("split", o.Split, o.Split != "")
	add("fields", strings.Join(h.Fields, ","), len(h.Fields) > 0)
	add("record-size", h.RecordSize, h.RecordSize != 0)
	add("sequence-length", h.SequenceLength, h.SequenceLength != 0)
	add("dtype", h.DType, h.DType != "")
	add("sample-key", h.Key, h.Key != "")
	add("header", h.Header, h.Header != "")
	add("hidden", true, o.Hidden)
	return all
}
