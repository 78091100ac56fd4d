package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/admission"
	"github.com/millrace-data/millrace/gateway/plans"
)

// hangingIndex is an index that is read in parts, and whose store never responds.
type hangingIndex struct {
	plans.Index
	asked chan struct{}
	end   chan struct{}
}

func (hangingIndex) InPart() bool { return true }

func (x hangingIndex) Fetch(ctx context.Context, _ []uint64) error {
	x.asked <- struct{}{}
	select {
	case <-x.end:
	case <-ctx.Done():
	}
	return nil
}

// TestAnIndexWhoseStoreHangsHoldsUpItsOwnDatasetAlone: requests that wait for a hanging store hold
// planning slots of their own dataset, and no slots of other datasets.
func TestAnIndexWhoseStoreHangsHoldsUpItsOwnDatasetAlone(t *testing.T) {
	n := admission.PlanningPlaces()
	x := hangingIndex{asked: make(chan struct{}, n), end: make(chan struct{})}
	r := newRig(t, 60, 800, func(c *gateway.Config) {
		x.Index = c.Datasets[0].Index
		c.Datasets = append(c.Datasets, gateway.Dataset{Name: "silent", Index: x, Source: c.Datasets[0].Source})
	})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { r.do(http.MethodGet, fmt.Sprintf("/v1/datasets/silent/epochs/%d/batches/0", i)) })
	}
	for range n {
		<-x.asked
	}
	answered := make(chan int, 1)
	all.Go(func() { answered <- r.do(http.MethodGet, "/v1/datasets/photos/epochs/0/batches/0").StatusCode })
	select {
	case got := <-answered:
		if got != http.StatusOK {
			t.Errorf("got status %d of a dataset whose store works, want 200", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("a dataset whose store works waits for one whose store hangs")
	}
	close(x.end)
	all.Wait()
}
