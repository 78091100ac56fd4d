//go:build !race

package simulate

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

func TestLine(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct {
		name          string
		total, stream float64
		transfers     int
		want          time.Duration
	}{
		{"no bound", 0, 0, 8, 0},
		{"total", size, 0, 8, 8 * time.Second},
		{"stream", 0, size, 8, time.Second},
		{"stream binds", 10 * size, size, 4, time.Second},
		{"total binds", 2 * size, size, 4, 2 * time.Second},
	} {
		k := newClock(16)
		l := &line{total: c.total, stream: c.stream}
		ended := 0
		for range c.transfers {
			k.start(func() {
				k.transfer(size, nil, l)
				ended++
			})
		}
		for k.step() {
		}
		if ended != c.transfers || (k.now-c.want).Abs() > time.Microsecond {
			t.Errorf("%s: got %d transfers in %v, want %d in %v", c.name, ended, k.now, c.transfers, c.want)
		}
	}
}

// TestClock_RunsTasksInOrder checks that tasks continue in the order of their times, and of equal
// times in the order in which they began to wait, and that each returns after all of its calls.
func TestClock_RunsTasksInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waits := rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "waits")
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		k, most, running, ended := newClock(16), 0, 0, 0
		var got []time.Duration
		done := false
		k.start(func() {
			k.each(len(waits), limit, func(i int) {
				running++
				most = max(most, running)
				k.sleep(time.Duration(waits[i]))
				got = append(got, k.now)
				running--
				ended++
			})
			done = ended == len(waits)
		})
		for k.step() {
		}
		if !done || len(k.tasks) > 0 || most > limit || !slices.IsSorted(got) || limit == 1 && len(got) > 0 && got[len(got)-1] != sum(waits) {
			t.Fatalf("waits of %v: got %v, %d at a time, want at most %d", waits, got, most, limit)
		}
	})
}

// sum returns the sum of some waits.
func sum(waits []int) (all time.Duration) {
	for _, w := range waits {
		all += time.Duration(w)
	}
	return all
}

// TestClock_StopEndsTasks checks that no task is left, whether it waits or has not begun.
func TestClock_StopEndsTasks(t *testing.T) {
	k := newClock(16)
	ended := 0
	for range 3 {
		k.start(func() {
			defer func() { ended++ }()
			k.park()
		})
	}
	for k.step() {
	}
	k.start(func() { t.Error("got a task that began") })
	if k.stop(); ended != 3 || len(k.tasks) > 0 {
		t.Errorf("got %d of 3 tasks ended, and %d left", ended, len(k.tasks))
	}
}

// TestUsesHoldEverySample checks that the uses contain every sample of a batch, each in its chunk.
func TestUsesHoldEverySample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &Data{First: []uint64{0}}
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 5), 1, 20).Draw(t, "sizes") {
			d.First = append(d.First, d.Samples()+uint64(n))
			d.Chunks = append(d.Chunks, Chunk{Length: int64(n) * 10})
		}
		if d.Samples() == 0 {
			return
		}
		samples := rapid.SliceOf(rapid.Uint64Range(0, d.Samples()-1)).Draw(t, "samples")
		want := slices.Sorted(slices.Values(samples))
		var got []uint64
		for i, u := range d.usesOf(samples) {
			if i > 0 && len(got) > 0 && d.First[u.chunk] <= got[len(got)-1] {
				t.Fatalf("chunk %d comes late or twice", u.chunk)
			}
			for _, s := range u.places {
				if s < d.First[u.chunk] || s >= d.First[u.chunk+1] {
					t.Fatalf("sample %d is not in chunk %d", s, u.chunk)
				}
			}
			if int(u.samples) != len(u.places) {
				t.Fatalf("got %d places, want %d", len(u.places), u.samples)
			}
			got = append(got, u.places...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func uniform(t *testing.T, samples, per uint64, size int64) *Data {
	t.Helper()
	d, err := Uniform(samples, per, size)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// plain returns a setting with little store latency, for exact counts.
func plain(d *Data, cache float64) Setting {
	return Setting{
		Order: shuffle.Params{Shuffle: shuffle.Window, Window: 8, Seed: 1}, BatchSize: 256, Epochs: 3, Ranks: 2, Rate: 1e5, Skew: 1,
		Gateways: 1, CacheSize: int64(cache * float64(d.Bytes())), Policy: policy.Plan, Fetchers: 8, PartSize: 16 << 20, StoreRate: 100e6, FirstByte: time.Millisecond,
	}
}

func predict(t *testing.T, d *Data, s Setting) Result {
	t.Helper()
	r, err := Run(t.Context(), d, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPoliciesMeetTheirBounds checks hit rates when every chunk is used once per epoch. No policy
// hits more than the share of the data that it holds. Furthest next use nearly reaches that share,
// and LRU stays far below it.
func TestPoliciesMeetTheirBounds(t *testing.T) {
	d := uniform(t, 512*64, 64, 4096)
	for _, cache := range []float64{.35, .5, .65} {
		memory := map[string]float64{}
		for _, name := range policy.Names() {
			s := plain(d, cache)
			s.Policy = name
			r := predict(t, d, s)
			memory[name], _, _ = r.Later().Tiers()
		}
		if got := memory[policy.Plan]; got > cache || got < cache-24./512-.01 { // 8 chunks of the window and 16 prefetched ones pass through memory
			t.Errorf("plan, cache %.2f: got %.3f out of memory, want a little less than it holds", cache, got)
		}
		if got := memory[policy.LRU]; got > cache*.7 {
			t.Errorf("lru, cache %.2f: got %.3f out of memory, want much less than it holds", cache, got)
		}
	}
}

func TestBounds(t *testing.T) {
	d := uniform(t, 512*64, 64, 4096)
	store := plain(d, .2)
	job := plain(d, .2)
	job.Rate, job.ReadAhead, job.ServeRate = 1000, 2, 2*1000*4096 // sending to the ranks takes half as long as their computing
	for _, c := range []struct {
		s    Setting
		want string
	}{{store, "store"}, {job, "job"}} {
		r := predict(t, d, c.s)
		e := r.Later()
		b := r.Bounds(e)[0]
		if b.Name != c.want || e.Time < b.Time || float64(e.Time) > 1.08*float64(b.Time) {
			t.Errorf("got an epoch of %v, bound by %s with %v (%s), want just above that of the %s", e.Time, b.Name, b.Time, b.Sum, c.want)
		}
	}
}

// TestCoarseAgreesWithFine checks that a simulation by chunks has about the same result as one by
// samples.
func TestCoarseAgreesWithFine(t *testing.T) {
	d := uniform(t, 1024*64, 64, 4096)
	for _, name := range []string{shuffle.Window, shuffle.Slot, shuffle.None} {
		s := plain(d, .4)
		s.Order.Shuffle, s.Rate, s.Ranks = name, 20000, 4
		fine := predict(t, d, s)
		large := uniform(t, 128*1024*64, 128*64, 32) // the same bytes in the same number of chunks, but too many samples to simulate each
		s.BatchSize, s.Rate = s.BatchSize*128, s.Rate*128
		coarse := predict(t, large, s)
		if fine.Coarse != "" || coarse.Coarse == "" {
			t.Fatalf("%s: got %q and %q, want only the second to be coarse", name, fine.Coarse, coarse.Coarse)
		}
		for i := range fine.Epochs {
			a, b := &fine.Epochs[i], &coarse.Epochs[i]
			if off := float64(b.StoreBytes-a.StoreBytes) / float64(d.Bytes()); math.Abs(off) > .05 {
				t.Errorf("%s, epoch %d: got %d bytes, want about %d", name, i, b.StoreBytes, a.StoreBytes)
			}
			if off := float64(b.Time)/float64(a.Time) - 1; math.Abs(off) > .12 {
				t.Errorf("%s, epoch %d: got %v, want about %v", name, i, b.Time, a.Time)
			}
		}
	}
}

// TestThin_RepresentsAll checks that a simulation of a part of very many chunks, scaled up again,
// has the result of all of them.
func TestThin_RepresentsAll(t *testing.T) {
	d := uniform(t, uint64(standard().chunks)*2*1000, 1000, 1000)
	s := plain(d, .25)
	s.Epochs, s.Rate, s.StoreRate, s.Ranks, s.BatchSize = 1, 1e7, 1e9, 1, 4096
	s.Order.Shuffle = shuffle.None
	r := predict(t, d, s)
	if e := r.Later(); r.Coarse == "" || math.Abs(float64(e.StoreBytes)/float64(d.Bytes())-1) > .01 || e.Time < 250*time.Second || e.Time > 275*time.Second {
		t.Errorf("got %d bytes in %v (%s), want %d bytes in the 262 s that they take", e.StoreBytes, e.Time, r.Coarse, d.Bytes())
	}
}

// TestLongFullOrders checks that the first batches of a full order represent all, and that no
// scaled cache is larger than the data.
func TestLongFullOrders(t *testing.T) {
	d := uniform(t, 7<<20, 1000, 1000)
	s := plain(d, .25)
	s.Order.Shuffle, s.Epochs, s.StoreRate, s.BatchSize, s.Rate = shuffle.Full, 1, 1e9, 4096, 1e9
	r := predict(t, d, s)
	e := r.Later()
	if want := (7 << 20) * time.Millisecond / 8; r.Coarse == "" || e.Reads < 27<<18 || e.Reads > 29<<18 || e.Time < want*98/100 || e.Time > want*11/10 {
		t.Errorf("one by one: got %d reads in %v (%s), want about %d, 8 side by side, in %v", e.Reads, e.Time, r.Coarse, 7<<20, want)
	}
	s.CacheSize, s.Epochs = 2*d.Bytes(), 2
	r = predict(t, d, s)
	if a, b := r.Epochs[0].StoreBytes, r.Epochs[1].StoreBytes; a > d.Bytes() || a < d.Bytes()*9/10 || b > d.Bytes()/10 || r.Peak > s.CacheSize {
		t.Errorf("all in memory: got %d bytes, then %d, of %d, and a peak of %d", a, b, d.Bytes(), r.Peak)
	}
}

func TestSameQuestionSameAnswer(t *testing.T) {
	d := uniform(t, 128*64, 64, 4096)
	s := plain(d, .5)
	s.Skew, s.Ranks, s.Gateways, s.ReadAhead = 2, 8, 2, 2
	s.DiskSize, s.DiskRate = d.Bytes()/4, 1e9
	a, b := predict(t, d, s), predict(t, d, s)
	for i := range a.Epochs {
		if a.Epochs[i].Time != b.Epochs[i].Time || a.Epochs[i].Counts != b.Epochs[i].Counts {
			t.Errorf("epoch %d: got %+v and %+v, want the same", i, a.Epochs[i], b.Epochs[i])
		}
	}
}

// TestTiersAddUp checks that the effects of a disk and of a second gateway agree with arithmetic.
func TestTiersAddUp(t *testing.T) {
	d := uniform(t, 256*64, 64, 4096)
	s := plain(d, .25)
	s.DiskSize, s.DiskRate = d.Bytes()*2, 1e9
	r := predict(t, d, s)
	if e := r.Later(); e.StoreBytes > d.Bytes()/50 || e.DiskBytes < d.Bytes()/2 {
		t.Errorf("a disk that holds all: got %d bytes of the store and %d of the disk, want next to none and most", e.StoreBytes, e.DiskBytes)
	}
	s.DiskSize = d.Bytes() / 4
	r = predict(t, d, s)
	if memory, disk, _ := r.Later().Tiers(); memory > .25 || memory < .25-32./256 || math.Abs(disk-.25) > .06 {
		t.Errorf("a disk of a quarter: got %.3f out of memory and %.3f from disk, want a quarter each, except for chunks that pass through memory", memory, disk)
	}
	s.DiskSize = 0
	one := predict(t, d, s)
	s.Gateways, s.Alone = 2, true
	two := predict(t, d, s)
	if got := float64(two.Later().StoreBytes) / float64(one.Later().StoreBytes); math.Abs(got-2) > .1 {
		t.Errorf("two gateways: got %.2f times the reads of one, want twice as much: each of them needs every chunk", got)
	}
	if two.Peak > s.CacheSize || one.Peak > s.CacheSize {
		t.Errorf("got a peak of %d and %d bytes, want at most the cache, %d", one.Peak, two.Peak, s.CacheSize)
	}
}
