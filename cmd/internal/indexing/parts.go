package indexing

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/words"
)

// scanOptions returns the options that affect scans, as a user types them.
func scanOptions(o build.Options) string {
	all := given(o)
	if o.ChunkSize != 8<<20 {
		all = append(all, cli.Option{Flag: "chunk-size", Value: words.Size(o.ChunkSize)})
	}
	return all.String()
}

// AskForParts lists the parts that several machines have not finished, with the commands for them.
// command is the one that joins the parts, with all its options. Other errors are returned
// unchanged.
func AskForParts(command string, l location.Location, err error) error {
	e, ok := errors.AsType[*build.PartsError](err)
	if !ok {
		return err
	}
	var text strings.Builder
	missing := 0
	for _, l := range e.Lacks {
		missing += l.Shards
	}
	fmt.Fprintf(&text, "%s: %s of %s (%s) are missing, ", l, humanize.Comma(int64(missing)), words.Count(e.Shards, "shard", "shards"), humanize.IBytes(uint64(e.Bytes)))
	if e.Same {
		fmt.Fprintf(&text, "unfinished parts: %d of %d.", len(e.Lacks), e.Parts)
	} else {
		text.WriteString("but no part was started with these options.")
	}
	if e.Newer > 0 {
		fmt.Fprintf(&text, " %s, such as %s, came after the start of the parts.", words.Count(e.Newer, "shard", "shards"), words.Printable(e.After))
	}
	for _, o := range e.Other {
		fmt.Fprintf(&text, " This command cannot use the scans of %d parts that were started with %s.", o.Parts, cmp.Or(words.Printable(o.Options), "no options"))
	}
	text.WriteString(" Run the parts, then this command again, or scan the missing shards here")
	a := cli.Advice{Message: text.String()}
	add := func(part, effect string) {
		a.Choices = append(a.Choices, cli.Choice{Command: command + " --part " + part, Effect: effect})
	}
	for i, l := range e.Lacks {
		if i == maxAsked {
			a.Cure = fmt.Sprintf("and %d more", len(e.Lacks)-i)
			break
		}
		add(fmt.Sprintf("%d/%d", l.Part, e.Parts), fmt.Sprintf("%s, such as %s", words.Count(l.Shards, "shard", "shards"), words.Printable(l.Example)))
	}
	add("rest", words.Count(missing, "shard", "shards"))
	return &cli.Refusal{Advice: a, Cause: e}
}

// printPart writes the result of a part as text.
func printPart(w io.Writer, l location.Location, r build.Report) {
	p := r.Part
	fmt.Fprintf(w, "scanned part %d of %d of %s\n", p.Part, p.Parts, l)
	fmt.Fprintf(w, "  %s of %s, %s\n", words.Count(p.Shards, "shard", "shards"), humanize.Comma(int64(r.Shards)), humanize.IBytes(uint64(p.Bytes)))
	fmt.Fprintf(w, "  read %s, reused %s\n", humanize.IBytes(uint64(r.ReadBytes)), words.Count(r.ReusedShards, "shard", "shards"))
}
