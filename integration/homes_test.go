package integration_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
)

// homed is the number of gateways that a job reads from, which is also its number of homes.
const homed = 4

// TestPlainGatewaysReadTheStoreOnce reads epochs through independent gateways, each rank from the
// gateway of its home. In the first epoch the gateways together read the store once; in the next
// epoch they read nothing. The exception is samples that move between homes, because the ranks do
// not divide evenly among them. Different samples move in each epoch.
func TestPlainGatewaysReadTheStoreOnce(t *testing.T) {
	store, reads, alone := homedStore(t)
	for _, ranks := range []uint64{4, 6, 32} {
		t.Run(fmt.Sprintf("%d ranks", ranks), func(t *testing.T) {
			gateways := make([]*harness.Gateway, homed)
			for i := range gateways {
				gateways[i] = serve(t, store, "--cache-size", "16MiB", "--lame-duck", "0s")
			}
			opt := client.Options{WorldSize: ranks, BatchSize: 256, Share: "locality", Homes: homed}
			moved := movedShare(t, gateways[0], opt)
			for epoch, most := range []float64{1.01 + moved, .005 + moved} {
				reads.Forget()
				opt.Epoch = uint64(epoch)
				ranksReadHomes(t, gateways, opt)
				got := float64(reads.Bytes()) / alone
				t.Logf("epoch %d: %.4f of the data read from the store, %.4f of the samples move", epoch, got, moved)
				if got > most {
					t.Errorf("epoch %d: got %.4f of the data read from the store, want at most %.4f", epoch, got, most)
				}
			}
		})
	}
}

// homedStore returns a store with enough samples for each of the homes, which records its reads.
// alone is the number of bytes that a single gateway reads in an epoch.
func homedStore(t *testing.T) (store *harness.Store, reads *harness.Reads, alone float64) {
	t.Helper()
	store, reads = harness.OpenCounted(t)
	files, _ := harness.Files(t, 6000, 1500)
	harness.Pack(t, store, files, dataset, small()...)
	harness.Record(t, harness.Packed(t, store, dataset))
	g := serve(t, store)
	reads.Forget()
	ranksReadHomes(t, []*harness.Gateway{g}, client.Options{WorldSize: 1, BatchSize: 256})
	return store, reads, float64(reads.Bytes())
}

// movedShare returns the fraction of the samples that move between homes, according to a gateway's
// description of the epoch.
func movedShare(t *testing.T, g *harness.Gateway, opt client.Options) float64 {
	t.Helper()
	path := fmt.Sprintf("/v1/datasets/%s/epochs/0?batch_size=%d&share=locality&homes=%d&world_size=%d", dataset, opt.BatchSize, opt.Homes, opt.WorldSize)
	var epoch struct{ Moved float64 }
	if r := g.Get(t, path); r.Status != 200 || json.Unmarshal(r.Body, &epoch) != nil {
		t.Fatalf("describe the epoch: got %d %s", r.Status, r.Body)
	}
	return epoch.Moved
}

// ranksReadHomes reads an epoch with all ranks concurrently, each from the gateway of its group,
// and checks that each sample is delivered once.
func ranksReadHomes(t *testing.T, gateways []*harness.Gateway, opt client.Options) {
	t.Helper()
	allRead(t, opt, func(rank uint64) []string { return []string{gateways[rank*uint64(len(gateways))/opt.WorldSize].URL} })
	harness.Recorded(t).Complete("job", jobName(opt), 0)
}
