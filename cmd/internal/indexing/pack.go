package indexing

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/pack"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/words"
)

// example adds the name of one object to a count.
func example(name string) string {
	if name == "" {
		return ""
	}
	return " (such as " + words.Printable(name) + ")"
}

// maxSkipped is the maximum number of skipped files listed in text. JSON lists all of them.
const maxSkipped = 10

// PackResult is the report of a command that packs files and indexes the shards.
type PackResult struct {
	pack.Report
	Index build.Report `json:"index"`
}

// Print writes the report as text.
func (r *PackResult) Print(w io.Writer, l location.Location) {
	if p := r.Part; p != nil {
		fmt.Fprintf(w, "packed part %d of %d of %s\n", p.Part, p.Parts, l)
		fmt.Fprintf(w, "  %s of %s, %s (%d finished before)\n", words.Count(p.Shards, "shard", "shards"), humanize.Comma(int64(r.Shards)), humanize.IBytes(uint64(p.Bytes)), r.ReusedShards)
		return
	}
	fmt.Fprintf(w, "packed %s, %s, as %s in %s (%d finished before)\n", words.Count(r.Files, "file", "files"),
		humanize.IBytes(uint64(r.Bytes)), words.Count(r.Samples, "sample", "samples"), words.Count(r.Shards, "shard", "shards"), r.ReusedShards)
	note(w, r.MultiMember > 0, "  %s of more than one member, such as %q: files of one name with several extensions, read together;\n  --sample-key path tells them apart where their names differ before the last dot\n",
		words.Count(r.MultiMember, "sample", "samples"), r.Example)
	if n := len(r.Extensions); n > 1 && n <= maxSkipped {
		var of []string
		for _, ext := range slices.Sorted(maps.Keys(r.Extensions)) {
			of = append(of, humanize.Comma(int64(r.Extensions[ext]))+" "+cmp.Or(words.Printable(ext), "without one"))
		}
		fmt.Fprintf(w, "  files by extension, of which --match leaves some out: %s\n", strings.Join(of, ", "))
	}
	if n := len(r.Classes); n > 0 {
		fmt.Fprintf(w, "  labels of %s: 0 is %s\n", words.Count(n, "class", "classes"), words.Printable(r.Classes[0]))
	}
	for _, t := range r.Tables {
		fmt.Fprintf(w, "  joined %s of %s to samples, as .json\n", words.Count(t.Joined, "row", "rows"), words.Printable(t.Table))
		note(w, t.Several > 0, "    each .json is an array: %s more than one row, such as %s\n", words.Count(t.Several, "name has", "names have"), words.Printable(t.SeveralOf))
		n := t.Missing + t.Unnamed
		note(w, n > 0, "    left out %s: %d of files that are not packed%s, and %d that name no file\n", words.Count(n, "row", "rows"), t.Missing, example(t.MissingOf), t.Unnamed)
	}
	note(w, r.WithoutRow > 0, "  %s no row%s\n", words.Count(r.WithoutRow, "sample has", "samples have"), example(r.WithoutRowOf))
	note(w, r.Hidden > 0, "  left out %s, such as %s: --hidden includes them\n", words.Count(r.Hidden, "hidden file", "hidden files"), words.Printable(r.HiddenExample))
	for i, s := range r.Skipped {
		if i == maxSkipped {
			fmt.Fprintf(w, "  and %d more\n", len(r.Skipped)-i)
			break
		}
		fmt.Fprintf(w, "  skipped %q: not a regular file\n", s)
	}
	Print(w, l, r.Index)
}
