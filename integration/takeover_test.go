package integration_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
)

// TestGatewaysChangeUnderAJob changes the number of gateways in the middle of an epoch, while the
// job's homes stay the same. Every batch equals that of a single gateway, every sample is delivered
// once, and the gateways reread as much data as the plan predicts.
func TestGatewaysChangeUnderAJob(t *testing.T) {
	const ranks, batch, half = 8, 256, 11
	store, reads, alone := homedStore(t)
	for _, after := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d in place of %d", after, homed), func(t *testing.T) {
			said := takeover(t, store, ranks, after)
			gateways := make([]*harness.Gateway, max(homed, after))
			for i := range gateways {
				gateways[i] = serve(t, store, "--lame-duck", "0s")
			}
			j := homedJob{WorldSize: ranks, BatchSize: batch, Share: "locality", Homes: homed}
			moved := movedShare(t, gateways[0], client.Options(j))
			j.reads(t, gateways[:homed], 0, 0, 0)
			j.reads(t, gateways[:homed], 1, 0, half)
			reads.Forget()
			j.reads(t, gateways[:after], 1, half, 0)
			j.reads(t, gateways[:after], 2, 0, 0)
			got := float64(reads.Bytes())
			t.Logf("figure: %d gateways in place of %d: %.3f of the data read once more, %.3f said; %.4f of the samples move in each epoch",
				after, homed, got/alone, float64(said)/alone, moved)
			if least, most := .98*float64(said), 1.02*float64(said)+2*moved*alone; got < least || got > most {
				t.Errorf("got %.0f bytes of the store in the rest of the epoch and the next one, want %.0f to %.0f", got, least, most)
			}
			reads.Forget()
			j.reads(t, gateways[:after], 3, 0, 0)
			if got, most := float64(reads.Bytes()), (.005+moved)*alone; got > most {
				t.Errorf("got %.0f bytes of the store in the epoch after that, want at most %.0f", got, most)
			}
		})
	}
}

// takeover returns the number of bytes that are reread, according to the plan, when the given
// number of gateways replaces one gateway per home.
func takeover(t *testing.T, store *harness.Store, ranks, gateways int) int64 {
	t.Helper()
	text := harness.MustRun(t, store, "plan", store.Dataset(dataset), "--world-size", fmt.Sprint(ranks), "--homes", fmt.Sprint(homed), "--gateways", fmt.Sprint(gateways), "--json")
	var plan struct {
		Locality struct{ Takeovers []struct{ Bytes int64 } }
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil || len(plan.Locality.Takeovers) != 1 || plan.Locality.Takeovers[0].Bytes == 0 {
		t.Fatalf("got %v and %s, want one takeover of some bytes", err, text)
	}
	return plan.Locality.Takeovers[0].Bytes
}

// homedJob describes a job whose ranks have homes.
type homedJob client.Options

// reads lets all ranks read batches of an epoch concurrently, each from the gateway of its home.
// With until 0 it reads to the end, which completes the epoch.
func (j homedJob) reads(t *testing.T, gateways []*harness.Gateway, epoch, from, until uint64) {
	t.Helper()
	urls := make([]string, len(gateways))
	for i, g := range gateways {
		urls[i] = g.URL
	}
	opt := client.Options(j)
	opt.Epoch, opt.From, opt.Until = epoch, from, until
	allRead(t, opt, func(uint64) []string { return urls })
	if until == 0 {
		harness.Recorded(t).Complete("job", jobName(opt), 0)
	}
}
