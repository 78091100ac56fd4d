package garbage

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/internal/cli"
)

// Report is what was found, for people and scripts.
type Report struct {
	DryRun  bool   `json:"dry_run"` // Removed would be removed, and is still there
	Removed []Item `json:"removed"`
	Kept    []Item `json:"kept"` // added up
}

// Report returns what was removed, or would be.
func (f *Found) Report(dry bool) Report {
	return Report{DryRun: dry, Removed: append([]Item{}, f.Remove...), Kept: append([]Item{}, Summary(f.Keep)...)}
}

// Print writes it for people.
func (r Report) Print(w io.Writer) {
	verb, objects, bytes := "removed", 0, int64(0)
	if r.DryRun {
		verb = "would remove"
	}
	for _, i := range r.Removed {
		fmt.Fprintf(w, "%s %s (%s, %s): %s\n", verb, cli.Printable(i.Key), cli.Count(i.Objects, "object", "objects"), humanize.IBytes(uint64(i.Bytes)), i.Why)
		objects, bytes = objects+i.Objects, bytes+i.Bytes
	}
	for _, i := range r.Kept {
		fmt.Fprintf(w, "kept %s of %s, %s: %s\n", cli.Count(i.Objects, "object", "objects"), i.Kind, humanize.IBytes(uint64(i.Bytes)), i.Why)
	}
	fmt.Fprintf(w, "%s %s, %s\n", verb, cli.Count(objects, "object", "objects"), humanize.IBytes(uint64(bytes)))
}
