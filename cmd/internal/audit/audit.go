// Package audit checks the ledgers of a run, and finds when the run read a sample. It needs the
// ledgers and the index, and no gateway.
package audit

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/millrace-data/millrace/client/ledger"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/occurrences"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/internal/words"
)

// Error reports ledgers that are damaged, or do not cover each position once.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// Reading is one time that a run read the sample, or a substitute in its place.
type Reading struct {
	Attempt uint64 `json:"attempt"`
	plans.Occurrence
	Note string `json:"note,omitempty"` // effect of the reader or the quarantine; empty: the sample was read and yielded
}

// Answer is the result of an audit.
type Answer struct {
	ledger.Report
	Readings []Reading `json:"readings,omitempty"`
}

// Err returns an *Error unless the ledgers cover each position once.
func (a *Answer) Err() error {
	if a.OK() {
		return nil
	}
	found := []string{words.Count(len(a.Missing), "gap", "gaps"), words.Count(len(a.Doubled), "repeated range", "repeated ranges"), words.Count(len(a.Faults), "fault", "faults")}
	found = slices.DeleteFunc(found, func(s string) bool { return strings.HasPrefix(s, "0 ") })
	return &Error{"the audit of the ledgers found " + strings.Join(found, ", ")}
}

// Read audits the ledgers in files.
func Read(files []string) (a Answer, err error) {
	var parts []ledger.Part
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return a, fmt.Errorf("read ledger: %w", err)
		}
		some, err := ledger.Parse(text)
		if err != nil {
			return a, &Error{fmt.Sprintf("ledger %s, %v", name, err)}
		}
		parts = append(parts, some...)
	}
	return Answer{Report: ledger.Audit(parts)}, nil
}

// maxEpochs is the number of epochs that one question may ask about.
const maxEpochs = 1000

// Find adds the readings of a sample, from the indexes at locations.
func (a *Answer) Find(ctx context.Context, s *location.Stores, from []location.Location, key, shard string) error {
	for _, t := range a.List {
		for first := t.Parts[0].Start[0]; first <= t.End[0] && t.Parts[0].Start.Compare(t.End) < 0; first += maxEpochs {
			q := occurrences.Question{Key: key, Shard: shard, Epochs: fmt.Sprintf("%d-%d", first, min(first+maxEpochs-1, t.End[0]))}
			if err := a.find(ctx, s, from, t, q); err != nil {
				return fmt.Errorf("attempt %d: %w", t.Parts[0].Attempt, err)
			}
		}
	}
	slices.SortFunc(a.Readings, func(x, y Reading) int { return placeOf(x.Occurrence).Compare(placeOf(y.Occurrence)) })
	return nil
}

// find adds the readings of an attempt. It compares the plan with that without the quarantines: a
// position in only one of both has a substitute.
func (a *Answer) find(ctx context.Context, s *location.Stores, from []location.Location, t *ledger.Attempt, q occurrences.Question) error {
	name, query, ok := address.DatasetOf(t.Parts[0].URL)
	ask, err := url.ParseQuery(query)
	if !ok || err != nil {
		return fmt.Errorf("the ledger has an invalid URL: %s", t.Parts[0].URL)
	}
	ask.Set("world_size", strconv.FormatUint(t.Parts[0].Ranks, 10))
	answer := func() ([]plans.Occurrence, error) {
		var digests []ledger.Plan
		q.URL = "/v1/datasets/" + name + "/epochs/0?" + ask.Encode()
		if err := q.Check(true); err != nil {
			return nil, fmt.Errorf("the ledger's URL: %w", err)
		}
		found, err := q.Answer(ctx, s, from)
		for _, d := range found.Plan.PlanDigests {
			digests = append(digests, ledger.NewPlan(d.Position, found.Plan.Samples, d.Digest))
		}
		if err == nil && !slices.Equal(digests, t.Parts[0].Plans) {
			err = &Error{"the url of the ledgers is of another plan than their plans: one of them was changed"}
		}
		return found.Occurrences, err
	}
	read, err := answer()
	if err != nil {
		return err
	}
	stored := read
	if strings.Contains(name+query, "quarantine=") {
		ask.Del("quarantine")
		if m, err := address.ParseMixture(name); err == nil {
			for i := range m.Sources {
				m.Sources[i].Quarantine = ""
			}
			name = m.Name()
		}
		if stored, err = answer(); err != nil {
			return err
		}
	}
	a.add(t, without(stored, read), "quarantined: a substitute was read")
	a.add(t, without(read, stored), "as substitute for a quarantined sample")
	a.add(t, without(read, without(read, stored)), "")
	return nil
}

// add adds the occurrences that the attempt has read.
func (a *Answer) add(t *ledger.Attempt, found []plans.Occurrence, note string) {
	for _, o := range found {
		if why, ok := t.Omission(*o.Rank, placeOf(o)); ok {
			a.Readings = append(a.Readings, Reading{t.Parts[0].Attempt, o, strings.Trim(note+"; "+why, "; ")})
		}
	}
}

func placeOf(o plans.Occurrence) ledger.Place {
	return ledger.Place{o.Epoch, o.Position}
}

// without returns the occurrences of a list that are not in another.
func without(list, other []plans.Occurrence) []plans.Occurrence {
	return slices.DeleteFunc(slices.Clone(list), func(o plans.Occurrence) bool {
		return slices.ContainsFunc(other, func(p plans.Occurrence) bool { return placeOf(o) == placeOf(p) })
	})
}

// Print writes the answer as text.
func (a *Answer) Print(w io.Writer) {
	for _, f := range a.Faults {
		fmt.Fprintln(w, f)
	}
	printGaps(w, "not read", a.Missing)
	printGaps(w, "read more than once", a.Doubled)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(a.Readings) > 0 {
		fmt.Fprintln(t, "epoch\tbatch\tposition\trank\tattempt\tnote")
	}
	for _, r := range a.Readings {
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%s\n", r.Epoch, r.Batch, r.Position, *r.Rank, r.Attempt, r.Note)
	}
	t.Flush()
	if a.From != (ledger.Place{}) {
		fmt.Fprintf(w, "the ledgers begin at %s, not at 0:0: they have nothing that the run read before\n", a.From)
	}
	if a.OK() {
		fmt.Fprint(w, "complete: ")
	}
	fmt.Fprintf(w, "%s to %s (epoch:position) in %s of %s: %d positions, %d read again after a resume\n",
		a.From, a.To, words.Count(a.Attempts, "attempt", "attempts"), words.Count(a.Parts, "part", "parts"), a.Positions, a.RolledBack)
	last := fmt.Sprintf("%d filtered, %d failed, %d replaced; head %s", a.Filtered, a.Failed, a.Replaced, a.Head)
	fmt.Fprintln(w, strings.TrimSuffix(last, "; head "))
}

// maxGaps bounds the gaps that Print lists.
const maxGaps = 20

func printGaps(w io.Writer, what string, gaps []ledger.Gap) {
	for _, g := range gaps[:min(len(gaps), maxGaps)] {
		fmt.Fprintf(w, "attempt %d: %s to %s %s by ranks %v\n", g.Attempt, g.From, g.To, what, g.Ranks)
	}
	if more := len(gaps) - maxGaps; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}
