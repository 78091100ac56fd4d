package inventory

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/words"
)

// List contains the objects of one kind of a dataset.
type List interface {
	Print(w io.Writer)
}

// storedObject has the columns that all lists share.
type storedObject struct {
	Generation string    `json:"generation"`
	Current    bool      `json:"current"` // a pointer of the dataset names the generation
	Bytes      int64     `json:"bytes"`
	Modified   time.Time `json:"modified"`
	Fault      string    `json:"fault,omitempty"` // why the other columns are empty
}

func newStoredObject(o objstore.Object, generation string, current map[string]bool, fault error) storedObject {
	s := storedObject{Generation: generation, Current: current[generation], Bytes: o.Size, Modified: o.Modified.UTC()}
	if fault != nil {
		s.Fault = fault.Error()
	}
	return s
}

// end contains the last columns of every table.
const end = "generation\tsize\twritten\t"

func (s storedObject) end() string {
	note := ""
	switch {
	case s.Fault != "":
		note = "not readable: " + s.Fault
	case s.Current:
		note = "current"
	}
	return fmt.Sprintf("%.12s\t%s\t%s\t%s", s.Generation, humanize.IBytes(uint64(s.Bytes)), humanize.Time(s.Modified), note)
}

// table writes a header and rows with tabs between the columns. Without rows it writes that there
// are none.
func table(w io.Writer, what, head string, rows []string) {
	if len(rows) == 0 {
		fmt.Fprintf(w, "no %s\n", what)
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for _, r := range rows {
		fmt.Fprintln(t, r)
	}
	t.Flush()
}

// Subsets is the list of a dataset's splits.
type Subsets struct {
	Subsets []subset `json:"subsets"`
}

type subset struct {
	Digest  string           `json:"subset"`
	Default bool             `json:"default"` // a name without a digest means this split, in its generation
	Salt    string           `json:"salt,omitempty"`
	Parts   []selection.Part `json:"parts"`
	storedObject
}

// ListSubsets lists the splits under a prefix.
func ListSubsets(ctx context.Context, st objstore.Store, prefix string) (List, error) {
	all, current, err := selections(ctx, st, prefix)
	if err != nil {
		return nil, err
	}
	l := Subsets{Subsets: []subset{}}
	for _, x := range all.Splits {
		row := subset{Digest: x.Digest, Default: x.Default, Salt: x.Rule.Salt, Parts: x.Rule.Parts, storedObject: newStoredObject(x.Object, x.Generation, current, x.Fault)}
		l.Subsets = append(l.Subsets, row)
	}
	return l, nil
}

// Print implements List.
func (l Subsets) Print(w io.Writer) {
	var rows []string
	for _, s := range l.Subsets {
		var parts []string
		for _, p := range s.Parts {
			parts = append(parts, p.String())
		}
		name := s.Digest
		if s.Default {
			name += " (default)"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", name, strings.Join(parts, ","), words.Printable(s.Salt), s.end()))
	}
	table(w, "subsets", "subset\tparts\tsalt\t"+end, rows)
}

// Quarantines is the list of a dataset's quarantines, which list bad samples.
type Quarantines struct {
	Quarantines []quarantine `json:"quarantines"`
}

type quarantine struct {
	Digest  string `json:"quarantine"`
	Samples uint64 `json:"samples"` // number of bad samples
	storedObject
}

// ListQuarantines lists the quarantines under a prefix.
func ListQuarantines(ctx context.Context, st objstore.Store, prefix string) (List, error) {
	all, current, err := selections(ctx, st, prefix)
	if err != nil {
		return nil, err
	}
	l := Quarantines{Quarantines: []quarantine{}}
	for _, x := range all.Quarantines {
		l.Quarantines = append(l.Quarantines, quarantine{x.Digest, x.Bad, newStoredObject(x.Object, x.Generation, current, x.Fault)})
	}
	return l, nil
}

// Print implements List.
func (l Quarantines) Print(w io.Writer) {
	var rows []string
	for _, q := range l.Quarantines {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s", q.Digest, humanize.Comma(int64(q.Samples)), q.end()))
	}
	table(w, "quarantines", "quarantine\tbad samples\t"+end, rows)
}

// Costs is the list of a dataset's cost tables.
type Costs struct {
	Costs []cost `json:"costs"`
}

type cost struct {
	Digest  string   `json:"cost"`
	Names   []string `json:"names"`
	Samples uint64   `json:"samples"`
	storedObject
}

// ListCosts lists the cost tables under a prefix.
func ListCosts(ctx context.Context, st objstore.Store, prefix string) (List, error) {
	all, current, err := selections(ctx, st, prefix)
	if err != nil {
		return nil, err
	}
	l := Costs{Costs: []cost{}}
	for _, x := range all.Costs {
		l.Costs = append(l.Costs, cost{x.Digest, append([]string{}, x.Names...), x.Samples, newStoredObject(x.Object, x.Generation, current, x.Fault)})
	}
	return l, nil
}

// Print implements List.
func (l Costs) Print(w io.Writer) {
	var rows []string
	for _, c := range l.Costs {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", c.Digest, strings.Join(c.Names, ","), humanize.Comma(int64(c.Samples)), c.end()))
	}
	table(w, "cost tables", "cost table\tnames\tsamples\t"+end, rows)
}

func selections(ctx context.Context, st objstore.Store, prefix string) (*selection.Inventory, map[string]bool, error) {
	current, err := chunkindex.Current(ctx, st, prefix)
	if err != nil {
		return nil, nil, err
	}
	s, err := selection.New(selection.Config{Reader: st, Prefix: prefix})
	if err != nil {
		return nil, nil, err
	}
	all, err := s.Stored(ctx)
	return all, current, err
}

// Losses is the list of a dataset's reported losses and snapshots of weights.
type Losses struct {
	Reports   []reports  `json:"reports"`
	Snapshots []snapshot `json:"snapshots"`
}

type reports struct {
	Plan    string `json:"plan"`
	Epoch   uint64 `json:"epoch"`
	Reports int    `json:"reports"`
	Batches uint64 `json:"batches"`
	Frozen  bool   `json:"frozen"` // a snapshot of the epoch exists
	storedObject
}

type snapshot struct {
	Digest    string `json:"snapshot"`
	Plan      string `json:"plan"`
	Epoch     uint64 `json:"epoch"`
	Positions uint64 `json:"positions"` // number of positions with a reported loss
	Samples   uint64 `json:"samples"`   // number of samples of the dataset
	storedObject
}

// ListLosses lists the reports and snapshots under a prefix.
func ListLosses(ctx context.Context, st objstore.Store, prefix string) (List, error) {
	current, err := chunkindex.Current(ctx, st, prefix)
	if err != nil {
		return nil, err
	}
	log, err := importance.New(importance.Config{Reader: st, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	snapshots, all, err := log.Stored(ctx)
	if err != nil {
		return nil, err
	}
	l := Losses{Reports: []reports{}, Snapshots: []snapshot{}}
	type epoch struct {
		plan   string
		number uint64
	}
	frozen := map[epoch]bool{}
	for _, x := range snapshots {
		frozen[epoch{x.Plan, x.Epoch}] = true
		row := snapshot{Digest: x.Digest, Plan: x.Plan, Epoch: x.Epoch, Positions: x.Positions, Samples: x.Samples, storedObject: newStoredObject(x.Object, x.Generation, current, x.Fault)}
		l.Snapshots = append(l.Snapshots, row)
	}
	for _, x := range all {
		row := reports{Plan: x.Plan, Epoch: x.Epoch, Reports: len(x.Objects), Batches: x.Batches, Frozen: frozen[epoch{x.Plan, x.Epoch}]}
		row.storedObject = newStoredObject(objstore.Object{Size: x.Bytes, Modified: x.Newest}, x.Generation, current, x.Fault)
		l.Reports = append(l.Reports, row)
	}
	return l, nil
}

// Print implements List. The tables refer to plans by number. The plans themselves follow the
// tables.
func (l Losses) Print(w io.Writer) {
	var plans []string
	number := func(plan string) int {
		for i, p := range plans {
			if p == plan {
				return i + 1
			}
		}
		plans = append(plans, plan)
		return len(plans)
	}
	var rows []string
	for _, r := range l.Reports {
		frozen := "no"
		if r.Frozen {
			frozen = "yes"
		}
		rows = append(rows, fmt.Sprintf("%d\t%d\t%s\t%s\t%s\t%s", number(r.Plan), r.Epoch, humanize.Comma(int64(r.Reports)), humanize.Comma(int64(r.Batches)), frozen, r.end()))
	}
	table(w, "reports", "plan\tepoch\treports\tbatches\tfrozen\t"+end, rows)
	rows = nil
	for _, s := range l.Snapshots {
		rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t%s\t%s", s.Digest, number(s.Plan), s.Epoch, humanize.Comma(int64(s.Positions)), s.end()))
	}
	fmt.Fprintln(w)
	table(w, "snapshots", "snapshot\tplan\tepoch\tpositions reported\t"+end, rows)
	for i, p := range plans {
		fmt.Fprintf(w, "\nplan %d: %s\n", i+1, words.Printable(p))
	}
}
