package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestPeersOfBuckets reads balanced batches in buckets from the two gateways of a cluster, each rank
// from its own and then from the other one. Both send the same bytes, and together they read the
// data from the store about once.
func TestPeersOfBuckets(t *testing.T) {
	store, reads := harness.OpenCounted(t)
	files, _ := harness.Files(t, 6000, 1500)
	harness.Pack(t, store, files, dataset, small()...)
	f := trio(t, store, func(c *harness.FleetConfig) { c.Size = 2 })
	f.StartAll(t)
	f.Agree(t)
	reads.Forget()
	const path, batches = "/v1/datasets/" + dataset + "/epochs/1/batches/%d?batch_size=256&bucket=4&balance=bytes&world_size=2&rank=%d", 24
	bodies, all := map[string][]byte{}, 0
	for turn := range 2 {
		for i := range 2 * batches {
			at := fmt.Sprintf(path, i/2, i%2)
			a := f.Members[(i+turn)%2].Get(t, at)
			if turn == 0 {
				bodies[at], all = a.Body, all+len(a.Body)
			}
			if a.Status != http.StatusOK || !bytes.Equal(a.Body, bodies[at]) {
				t.Errorf("%s from gateway %d: got status %d and %d bytes, want the %d bytes of the other gateway", at, (i+turn)%2, a.Status, len(a.Body), len(bodies[at]))
			}
		}
	}
	if got := float64(reads.Bytes()) / float64(all); got < .9 || got > 1.05 {
		t.Errorf("got %.3f of the data from the store, want about 1", got)
	} else {
		t.Logf("figure: two gateways read %.3f of the data from the store", got)
	}
}
