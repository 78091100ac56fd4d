package garbage

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/internal/words"
)

// Report is the result for people and scripts.
type Report struct {
	DryRun      bool         `json:"dry_run"` // the objects in Removed would be removed, but still exist
	Generations []Generation `json:"generations"`
	Removed     []Item       `json:"removed"`
	Kept        []Item       `json:"kept"` // added up by kind and reason
}

// Report returns the removed objects. With dry, these are the objects that would be removed.
func (f *Result) Report(dry bool) Report {
	return Report{
		DryRun: dry, Generations: append([]Generation{}, f.Generations...),
		Removed: append([]Item{}, f.Remove...), Kept: append([]Item{}, Summary(f.Keep)...),
	}
}

// Print writes the report as text.
func (r Report) Print(w io.Writer) {
	printGenerations(w, r.Generations)
	verb, objects, bytes := "removed", 0, int64(0)
	if r.DryRun {
		verb = "would remove"
	}
	for _, i := range r.Removed {
		fmt.Fprintf(w, "%s %s (%s, %s): %s\n", verb, words.Printable(i.Key), words.Count(i.Objects, "object", "objects"), humanize.IBytes(uint64(i.Bytes)), i.Why)
		objects, bytes = objects+i.Objects, bytes+i.Bytes
	}
	for _, i := range r.Kept {
		fmt.Fprintf(w, "kept %s of %s, %s: %s\n", words.Count(i.Objects, "object", "objects"), i.Kind, humanize.IBytes(uint64(i.Bytes)), i.Why)
	}
	fmt.Fprintf(w, "%s %s, %s\n", verb, words.Count(objects, "object", "objects"), humanize.IBytes(uint64(bytes)))
}

// printGenerations writes a line for each generation: whether it is removed, and why.
func printGenerations(w io.Writer, all []Generation) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "generation\tcurrent until\tobjects\tsize\tverdict")
	for _, g := range all {
		until, verdict := "now", "kept"
		if g.Until != nil {
			until = clock(*g.Until)
		}
		if g.Remove {
			verdict = "unneeded"
		}
		fmt.Fprintf(t, "%.12s\t%s\t%s\t%s\t%s: %s\n", g.Generation, until, humanize.Comma(int64(g.Objects)), humanize.IBytes(uint64(g.Bytes)), verdict, g.Why)
	}
	t.Flush()
}
