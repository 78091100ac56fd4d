package gateway_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
)

// TestQuarantineHoldsWhatItTakes reads with one list and several seeds, for each of which the
// quarantine is computed separately. A few bad samples must not use the memory of the longest list.
func TestQuarantineHoldsWhatItTakes(t *testing.T) {
	memory := budget.New(20<<20, 20*time.Millisecond)
	r := newRig(t, 50, 800, func(c *gateway.Config) { c.Budget = memory })
	digest, before := r.quarantine(1, 20), memory.InUse()
	for seed := range 4 {
		if a := r.do("GET", fmt.Sprintf("/epoch/0/batch/0?seed=%d&quarantine=%s", seed, digest)); a.StatusCode != http.StatusOK {
			t.Fatalf("seed %d: got status %d %s, want 200", seed, a.StatusCode, a.body)
		}
	}
	if got := memory.InUse() - before; got <= 0 || got > 64<<10 {
		t.Errorf("got %d bytes in use for two samples, want some, and at most 64 KiB", got)
	}
}

// TestQuarantineInSmallMemory: a list in the URL takes memory for its samples. For a stored list, the error names the
// limit and the memory that it takes.
func TestQuarantineInSmallMemory(t *testing.T) {
	r := newRig(t, 50, 800, func(c *gateway.Config) { c.Budget = budget.New(1<<20, 20*time.Millisecond) })
	if a := r.do("GET", "/epoch/0/batch/0?quarantine=samples:7"); a.StatusCode != http.StatusOK {
		t.Errorf("one sample: got status %d %s, want 200", a.StatusCode, a.body)
	}
	p := checkProblem(t, r.do("GET", "/v1/datasets/photos/epochs/0?quarantine="+r.quarantine(1, 20)), 400, "batch_too_large", false)
	if p.Bytes == nil || *p.Bytes != 12<<20 || !strings.Contains(p.Detail, "takes 12582912 bytes of memory: --cache-size, which is 1048576 bytes,") {
		t.Errorf("stored list: got %+v, want 12 MiB, and 1 MiB as --cache-size", p)
	}
}

// TestQuarantineOfAnOlderGeneration reads with a list that was stored before the dataset grew.
func TestQuarantineOfAnOlderGeneration(t *testing.T) {
	g := newGenerations(t, nil)
	digest := g.quarantine(1, 5)
	g.newer.Selection = g.selections()
	if err := g.gateway.Serve([]gateway.Dataset{g.newer}, nil); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(7) {
		var found struct{ Occurrences []struct{ Position uint64 } }
		g.json("/v1/datasets/photos/occurrences?epochs=0&quarantine="+digest+"&key="+url.QueryEscape(g.order[n]), &found)
		if bad := n == 1 || n == 5; (len(found.Occurrences) == 0) != bad {
			t.Errorf("sample %d: got %d occurrences, bad: %t", n, len(found.Occurrences), bad)
		}
	}
	if got := g.do("GET", "/epoch/3/batch/1?quarantine="+digest); got.StatusCode != http.StatusOK {
		t.Errorf("got status %d %s, want 200", got.StatusCode, got.body)
	}
}
