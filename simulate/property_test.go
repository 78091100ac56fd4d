package simulate

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/shuffle"
)

// TestAnySettingComesToItsEnd: whatever is asked, every byte is served in every epoch, in no more memory than there is, and no faster
// than the job and the store can be.
func TestAnySettingComesToItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
		d, err := Uniform(uint64(draw("samples", 1, 1000)), uint64(draw("per", 1, 40)), int64(draw("size", 1, 20_000)))
		if err != nil {
			t.Fatal(err)
		}
		ranks := draw("ranks", 1, 6)
		s := Setting{
			Order: shuffle.Params{
				Shuffle: rapid.SampledFrom([]string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full}).Draw(t, "shuffle"),
				Window:  uint64(draw("window", 1, 40)), Seed: uint64(draw("seed", 0, 9)),
			},
			BatchSize: uint64(draw("batch", ranks, 300)), Epochs: draw("epochs", 1, 3), Ranks: ranks, Rate: float64(draw("rate", 10, 1e6)),
			Skew: float64(draw("skew", 10, 40)) / 10, ReadAhead: draw("ahead", 0, 4), Gateways: draw("gateways", 1, min(ranks, 3)),
			Policy: rapid.SampledFrom(Policies()).Draw(t, "policy"), Fetchers: draw("fetchers", 1, 14), PartSize: int64(draw("part", 1<<10, 16<<20)),
			DiskSize: int64(draw("disk", 0, 2)) * d.Bytes() / 2, DiskRate: 1e8, ServeRate: float64(draw("serve", 0, 1)) * 1e9,
			StoreRate: float64(draw("store", 0, 3)) * 1e8, StoreStream: float64(draw("stream", 0, 2)) * 1e7, FirstByte: time.Duration(draw("latency", 0, 20)) * time.Millisecond,
			NoPrefetch: rapid.Bool().Draw(t, "no prefetch"), Alone: rapid.Bool().Draw(t, "alone"), Unnumbered: rapid.Bool().Draw(t, "unnumbered"),
			LinkRate: float64(draw("link", 0, 2)) * 1e8, PeerLatency: time.Duration(draw("peer latency", 0, 2)) * time.Millisecond,
			RanksNear: rapid.Bool().Draw(t, "ranks near"),
		}
		s.CacheSize = max(s.Least(d), 1<<20) + d.Bytes()*int64(draw("cache", 0, 20))/10
		r, err := Run(t.Context(), d, s)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Epochs) != s.Epochs || r.Peak > s.CacheSize {
			t.Fatalf("got %d epochs and a peak of %d, want %d and at most %d", len(r.Epochs), r.Peak, s.Epochs, s.CacheSize)
		}
		for i := range r.Epochs {
			e := &r.Epochs[i]
			if lost := d.Bytes() - e.Served; lost < 0 || lost > int64(d.Samples()) { // less than a byte a use, by rounding
				t.Errorf("epoch %d: got %d bytes served, want %d", i, e.Served, d.Bytes())
			}
			for _, b := range r.Bounds(e) {
				switch {
				case b.Name == "fetchers": // requests' reads and those made ahead may exceed them for a moment
					continue
				case b.Name == "job" && s.Skew > 1, b.Name != "job" && s.Epochs > 1:
					continue // ranks take other shares then; what is fetched ahead for an epoch counts to the one before
				}
				if e.Time < b.Time-b.Time/100-time.Millisecond {
					t.Errorf("epoch %d: got %v, want at least the %v of the %s (%s)", i, e.Time, b.Time, b.Name, b.Sum)
				}
			}
			if e.LinkIn != e.StoreBytes+e.PeerBytes {
				t.Errorf("epoch %d: got %d bytes into the links, want those of the store, %d, and of peers, %d", i, e.LinkIn, e.StoreBytes, e.PeerBytes)
			}
			if s.cluster() == 1 && e.PeerReads+e.PeerBytes > 0 {
				t.Errorf("epoch %d: got %d questions, want none where nobody is to be asked", i, e.PeerReads)
			}
		}
	})
}
