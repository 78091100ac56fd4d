package client_test

import (
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/client/ledger"
	"github.com/millrace-data/millrace/gateway"
)

// TestLedger_CoversARunThatResumesOnOtherRanks: the ledgers that the ranks save last cover the run,
// on more ranks and on fewer, with a batch that was read again.
func TestLedger_CoversARunThatResumesOnOtherRanks(t *testing.T) {
	g := newReal(t, newStored(t), gateway.Config{})
	c := newClient(t, client.Config{Gateways: []string{g.url}})
	var saved []string
	attempt := func(ranks, epoch, from, saveAt, until uint64) {
		t.Helper()
		before := saved
		saved = nil
		for rank := range ranks {
			opt := client.Options{Epoch: epoch, From: from, Until: until, Rank: rank, WorldSize: ranks}
			l, err := c.NewLedger(t.Context(), opt, before...)
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for b, err := range c.Batches(t.Context(), opt) {
				if err != nil {
					t.Fatal(err)
				}
				if l.Add(b); b.Number < saveAt {
					text = l.String()
				}
			}
			saved = append(saved, text)
		}
	}
	attempt(2, 0, 0, 2, 3)
	attempt(3, 0, 2, 100, 0)
	attempt(1, 1, 0, 100, 2)
	parts, err := ledger.Parse([]byte(strings.Join(saved, "")))
	if err != nil {
		t.Fatal(err)
	}
	got := ledger.Audit(parts)
	size := got.List[2].Parts[0].Read[0][2] / 2
	if !got.OK() || got.Parts != 6 || got.To != (ledger.Place{1, 2 * size}) || got.Positions != realSamples+2*size {
		t.Errorf("got %+v, want 6 parts without faults that cover an epoch and two batches", got)
	}
	if _, err := c.NewLedger(t.Context(), client.Options{}, saved[0], saved[0]); err == nil || !strings.Contains(err.Error(), "give those of all ranks in one checkpoint") {
		t.Errorf("got %v, want ledgers of all ranks", err)
	}
}

// TestResume_ContinuesEachLedger for any numbers of ranks before and after a resume.
func TestResume_ContinuesEachLedger(t *testing.T) {
	for before := range 6 {
		saved := ""
		for rank := range before {
			p := ledger.Part{Previous: []string{}, Rank: uint64(rank), Ranks: uint64(before), Read: []ledger.Range{}}
			p.Generation, p.URL = strings.Repeat("a", 32), "/?generation="+strings.Repeat("a", 64)
			p.Plans = []ledger.Plan{{Digest: p.Generation}}
			line, err := p.Line()
			if err != nil {
				t.Fatal(err)
			}
			saved = string(line) + saved
		}
		for after := range uint64(6) {
			continued := map[string]bool{}
			for rank := range after {
				p := ledger.Part{Rank: rank, Ranks: after}
				if err := p.Resume(saved); err != nil || (before > 0) != (p.Attempt == 1) || (before > 0) != (len(p.Previous) > 0) {
					t.Fatalf("%d to %d ranks: got %+v, %v", before, after, p, err)
				}
				for _, d := range p.Previous {
					continued[d] = true
				}
			}
			if after > 0 && len(continued) != before {
				t.Errorf("%d to %d ranks: %d parts are continued, want all", before, after, len(continued))
			}
		}
	}
}
