//go:build !race

package simulate

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// TestAnySettingComesToItsEnd checks any setting: every byte is served in every epoch, the memory
// is not exceeded, and no epoch is faster than the job and the store allow.
func TestAnySettingComesToItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
		d, err := Uniform(uint64(draw("samples", 1, 1000)), uint64(draw("per", 1, 40)), int64(draw("size", 1, 20_000)))
		if err != nil {
			t.Fatal(err)
		}
		for i, form := 0, draw("form", 0, 4); i < len(d.Chunks); i++ {
			switch c := &d.Chunks[i]; form {
			case 1:
				c.Stored = c.Length/3 + 1
			case 2:
				c.Extents = d.samplesOf(int32(i))
			}
		}
		ranks := draw("ranks", 1, 6)
		s := Setting{
			Order: shuffle.Params{
				Shuffle: rapid.SampledFrom([]string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full}).Draw(t, "shuffle"),
				Window:  uint64(draw("window", 1, 40)), Seed: uint64(draw("seed", 0, 9)),
			},
			BatchSize: uint64(draw("batch", ranks, 300)), Epochs: draw("epochs", 1, 3), Ranks: ranks, Rate: float64(draw("rate", 10, 1e6)),
			Skew: float64(draw("skew", 10, 40)) / 10, ReadAhead: draw("ahead", 0, 4), Gateways: draw("gateways", 1, min(ranks, 3)),
			Policy: rapid.SampledFrom(policy.Names()).Draw(t, "policy"), Fetchers: draw("fetchers", 1, 14), PartSize: int64(draw("part", 1<<10, 16<<20)),
			DiskSize: int64(draw("disk", 0, 2)) * d.Bytes() / 2, DiskRate: 1e8, ServeRate: float64(draw("serve", 0, 1)) * 1e9,
			StoreRate: float64(draw("store", 0, 3)) * 1e8, StoreStream: float64(draw("stream", 0, 2)) * 1e7, FirstByte: time.Duration(draw("latency", 0, 20)) * time.Millisecond,
			Alone:    rapid.Bool().Draw(t, "alone"),
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
		open := float64(2 * s.Fetchers * int(d.Chunks[0].Length)) // bytes of reads: those of requests, and as many prefetches
		for i := range r.Epochs {
			e := &r.Epochs[i]
			if lost := d.Bytes() - e.Served; lost < 0 || lost > int64(d.Samples()) { // rounding loses less than a byte for each use
				t.Errorf("epoch %d: got %d bytes served, want %d", i, e.Served, d.Bytes())
			}
			for _, b := range r.Bounds(e) {
				switch {
				case b.Name == "fetchers": // for a moment, reads of requests and prefetches may exceed the fetchers
					continue
				case b.Name == "job" && s.Skew > 1, b.Name != "job" && s.Epochs > 1:
					continue // ranks have different shares, and prefetches count in the previous epoch
				}
				least := b.Time - b.Time/100 - time.Millisecond
				switch b.Name { // a read counts when it begins, and some prefetches are still open when the last batch has been served
				case "store":
					least -= seconds(open / s.StoreRate)
				case "link":
					least -= seconds(open / s.LinkRate)
				}
				if e.Time < least {
					t.Errorf("epoch %d: got %v, want at least the %v of the %s (%s)", i, e.Time, b.Time, b.Name, b.Sum)
				}
			}
			if e.LinkIn != e.StoreBytes+e.PeerBytes {
				t.Errorf("epoch %d: got %d bytes into the links, want those of the store, %d, and of peers, %d", i, e.LinkIn, e.StoreBytes, e.PeerBytes)
			}
			if s.cluster() == 1 && e.PeerReads+e.PeerBytes > 0 {
				t.Errorf("epoch %d: got %d questions, want none without other gateways", i, e.PeerReads)
			}
		}
	})
}

// Compressed chunks are read as stored bytes, once if there is room. Each loose object, and each
// separate column range, is one read.
func TestFormsOfChunks(t *testing.T) {
	for name, form := range map[string]func(*Chunk){
		"compressed":    func(c *Chunk) { c.Stored = c.Length / 4 },
		"loose objects": func(c *Chunk) { c.Extents = 100 },
		"some columns":  func(c *Chunk) { c.Stored, c.Extents = c.Length/4, 3 },
	} {
		d, err := Uniform(10_000, 100, 10<<10)
		if err != nil {
			t.Fatal(err)
		}
		var bytes, reads int64
		for i := range d.Chunks {
			form(&d.Chunks[i])
			bytes, reads = bytes+d.Chunks[i].stored(), reads+max(d.Chunks[i].Extents, 1)
		}
		for _, epochs := range []int{1, 2} {
			r, err := Run(t.Context(), d, Setting{
				Order: shuffle.Params{Shuffle: shuffle.Slot, Window: 8, Seed: 1}, BatchSize: 256, Ranks: 2, Rate: 300, Epochs: epochs, ReadAhead: 2, Skew: 1,
				CacheSize: 1 << 30, Policy: policy.Plan, Gateways: 1, Fetchers: 12, PartSize: 16 << 20, ServeRate: 2e9, FirstByte: 20 * time.Millisecond, StoreRate: 80e6,
			})
			if err != nil {
				t.Fatal(err)
			}
			e := r.Epochs[epochs-1]
			switch {
			case epochs == 2 && e.StoreBytes > bytes/8:
				t.Errorf("%s: got %d bytes of %d read in the second epoch, want hardly any: there is room for all", name, e.StoreBytes, bytes)
			case epochs == 1 && (e.StoreBytes < bytes || e.StoreBytes > bytes*5/4):
				t.Errorf("%s: got %d bytes read, want about %d", name, e.StoreBytes, bytes)
			case epochs == 1 && (e.Reads < reads/16 || e.Reads > reads*5/4 || name != "compressed" && e.Reads < reads):
				t.Errorf("%s: got %d reads, want about %d", name, e.Reads, reads)
			}
		}
	}
}
