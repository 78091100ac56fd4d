package shuffle

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// homeOf returns the home, of the given number of homes, of the sample at a position. It uses the
// inverse of the order.
func homeOf(e *Epoch, t, homes uint64) int {
	x := e.At(t)
	if w := e.window; w != nil {
		k := e.plan.params.Strata
		p := newPerm(newKey("strata"), uint64(e.plan.chunks.len()))
		return int(p.at(uint64(e.plan.chunks.of(x))) % k * homes / k)
	}
	o := e.slot
	for place, n := range o.pieces {
		lane := slices.IndexFunc(o.firstPiece[1:], func(end uint32) bool { return end > uint32(place) })
		var p piece
		o.setPiece(&p, lane, place)
		first := o.chunks[o.pieceChunk[n]] + p.offset
		if x >= first && x < first+p.perm.n {
			return lane * int(homes) / len(o.offset)
		}
	}
	panic("a sample of no lane")
}

// dealtModel deals places to groups of ranks and counts the transfers. For each transfer it
// searches for the largest surplus and deficit again. The ranks of a group then take its places one
// by one.
func dealtModel(home []int, worldSize, homes int) (shares [][]int, moves int) {
	rankQuota := func(r int) int { return (r+1)*len(home)/worldSize - r*len(home)/worldSize }
	groups, quota := make([][]int, homes), make([]int, homes)
	for r := range worldSize {
		quota[r*homes/worldSize] += rankQuota(r)
	}
	for place, h := range home {
		groups[h] = append(groups[h], place)
	}
	for {
		from, to := 0, 0
		for g := range homes {
			if len(groups[g])-quota[g] > len(groups[from])-quota[from] {
				from = g
			}
			if quota[g]-len(groups[g]) > quota[to]-len(groups[to]) {
				to = g
			}
		}
		by := min(len(groups[from])-quota[from], quota[to]-len(groups[to]))
		if by <= 0 {
			break
		}
		end := len(groups[from])
		groups[to] = append(groups[to], groups[from][end-by:]...)
		groups[from] = groups[from][:end-by]
		moves++
	}
	for _, group := range groups {
		slices.Sort(group)
	}
	for r := range worldSize {
		group := &groups[r*homes/worldSize]
		n := rankQuota(r)
		shares = append(shares, (*group)[:n])
		*group = (*group)[n:]
	}
	return shares, moves
}

// checkDeal compares the shares of a batch with the model, and checks the guarantees that hold for
// any sharing.
func checkDeal(e *Epoch, batch Share, worldSize, homes uint64) error {
	home := make([]int, batch.Count)
	for place := range home {
		home[place] = homeOf(e, (batch.First+uint64(place))%e.plan.samples, homes)
	}
	want, moves := dealtModel(home, int(worldSize), int(homes))
	if moves > int(homes)-1 {
		return fmt.Errorf("got %d transfers, want at most %d", moves, homes-1)
	}
	var all []int
	for r := range worldSize {
		got := e.DealHomes(batch, r, worldSize, homes)
		if !slices.Equal(got, want[r]) {
			return fmt.Errorf("rank %d of %d of %+v, %d homes %v: got %v, want %v", r, worldSize, batch, homes, home, got, want[r])
		}
		if quota := (r+1)*batch.Count/worldSize - r*batch.Count/worldSize; uint64(len(got)) != quota {
			return fmt.Errorf("rank %d of %d: got %d samples, want %d", r, worldSize, len(got), quota)
		}
		all = append(all, got...)
	}
	slices.Sort(all)
	for i, place := range all {
		if i != place {
			return fmt.Errorf("got places %v, want every one below %d once", all, batch.Count)
		}
	}
	if uint64(len(all)) != batch.Count {
		return fmt.Errorf("got %d places, want %d", len(all), batch.Count)
	}
	return nil
}

func drawHomes(t *rapid.T) Params {
	if rapid.Bool().Draw(t, "slot") {
		return Params{Shuffle: Slot, Window: rapid.Uint64Range(1, 20).Draw(t, "window"), Seed: rapid.Uint64().Draw(t, "seed")}
	}
	return drawStrata(t)
}

func TestDealtSharesFollowHomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, drawHomes(t))
		e := p.Epoch(rapid.Uint64().Draw(t, "epoch"))
		b := Batching{
			Samples: p.Samples(), BatchSize: rapid.Uint64Range(1, 70).Draw(t, "batch size"),
			Tail: rapid.SampledFrom([]Tail{Short, Drop, Pad}).Draw(t, "tail"),
		}
		if b.Batches() == 0 {
			return
		}
		worldSize := rapid.Uint64Range(1, 25).Draw(t, "world size")
		homes := rapid.Uint64Range(1, worldSize).Draw(t, "homes") // also more homes than lanes or strata
		for _, m := range []uint64{0, b.Batches() / 2, b.Batches() - 1} {
			if err := checkDeal(e, b.Share(m, 0, 1), worldSize, homes); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestDealtDrawsFollowHomes repeats the check for samples drawn by weight.
func TestDealtDrawsFollowHomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWeighing(t, drawChunks(t))
		if w == nil {
			return
		}
		params := drawHomes(t)
		params.Importance = snapshot
		p, err := NewWeightedPlan(params, w.first, w.totals())
		if err != nil {
			t.Fatal(err)
		}
		n := min(p.Samples(), rapid.Uint64Range(1, 40).Draw(t, "batch size"))
		first := rapid.Uint64Range(0, p.Samples()-n).Draw(t, "first")
		worldSize := rapid.Uint64Range(1, 9).Draw(t, "world size")
		homes := rapid.Uint64Range(1, worldSize).Draw(t, "homes")
		if err := checkDeal(p.Epoch(3), Share{First: first, Count: n}, worldSize, homes); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRepairBreaksTiesByGroup checks a case computed by hand: groups 1 and 2 have two samples too
// many; groups 0, 3 and 4 lack 1, 1 and 2.
func TestRepairBreaksTiesByGroup(t *testing.T) {
	more := unevenGroups{{group: 1, by: 2}, {group: 2, by: 2}}
	less := unevenGroups{{group: 0, by: 1}, {group: 3, by: 1}, {group: 4, by: 2}}
	var got []string
	repair(more, less, func(from, to, lo, hi uint64) {
		got = append(got, fmt.Sprintf("%d gives [%d, %d) to %d", from, lo, hi, to))
	})
	want := []string{"1 gives [0, 2) to 4", "2 gives [1, 2) to 0", "2 gives [0, 1) to 3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestGradientsSumAlike: sharing does not change the sum of any value of the samples over all
// ranks, compared exactly in integers.
func TestGradientsSumAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, drawHomes(t))
		b := Batching{Samples: p.Samples(), BatchSize: rapid.Uint64Range(1, 50).Draw(t, "batch size"), Tail: Pad}
		e, worldSize := p.Epoch(1), rapid.Uint64Range(1, 9).Draw(t, "world size")
		homes := rapid.Uint64Range(1, worldSize).Draw(t, "homes")
		sum := func(into *[3]uint64, x uint64) {
			for i := range into {
				into[i] += newKey("gradient", uint64(i)).word(x)
			}
		}
		for m := range min(b.Batches(), 5) {
			var contiguous, local [3]uint64
			whole := b.Share(m, 0, 1)
			for r := range worldSize {
				for _, x := range e.AppendShare(nil, b.Share(m, r, worldSize)) {
					sum(&contiguous, x)
				}
				for _, place := range e.DealHomes(whole, r, worldSize, homes) {
					sum(&local, e.At((whole.First+uint64(place))%p.Samples()))
				}
			}
			if local != contiguous {
				t.Fatalf("batch %d of %+v for %d ranks: got %v, want %v", m, b, worldSize, local, contiguous)
			}
		}
	})
}

// movedFrom returns the number of samples of a batch above the quotas, given the home group of each
// sample.
func movedFrom(own []uint32, worldSize, homes uint64) uint64 {
	d := homeDeal{count: uint64(len(own)), worldSize: worldSize, homes: homes}
	return d.surplus(own)
}

// movedOver returns the share of samples that repair transfers over a whole epoch.
func movedOver(e *Epoch, batchSize, worldSize, homes uint64) float64 {
	b := Batching{Samples: e.plan.samples, BatchSize: batchSize}
	var moved uint64
	for m := range b.Batches() {
		batch := b.Share(m, 0, 1)
		moved += movedFrom(e.appendHomes(nil, batch, homes), worldSize, homes)
	}
	return float64(moved) / float64(b.Samples)
}

// hashedMoved returns the share of moved samples if a hash determined the homes of chunks.
func hashedMoved(e *Epoch, batchSize, worldSize uint64) float64 {
	var moved uint64
	for lo := uint64(0); lo+batchSize <= e.plan.samples; lo += batchSize {
		var homes []uint32
		for _, x := range e.Append(nil, lo, lo+batchSize) {
			homes = append(homes, uint32(newKey("owner", uint64(e.plan.chunks.of(x))).draw(0, worldSize)))
		}
		moved += movedFrom(homes, worldSize, worldSize)
	}
	return float64(moved) / float64(e.plan.samples)
}

func TestMovedIsBounded(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Slot, Window: 128, Seed: 1}, equal(1<<10, 1<<30))
	if got := p.Moved(Batching{Samples: p.Samples(), BatchSize: 1 << 38}, 64, 64); got != 0 {
		t.Errorf("huge batches: got %v moved, want 0", got)
	}
	if got := p.Moved(Batching{Samples: p.Samples(), BatchSize: 256}, 129, 129); got != 0 {
		t.Errorf("more ranks than lanes: got %v, want 0", got)
	}
	if got := mustPlan(t, Params{Shuffle: Full}, equal(4, 4)).Moved(Batching{Samples: 16, BatchSize: 4}, 2, 2); got != 0 {
		t.Errorf("full: got %v, want 0", got)
	}
}

// TestChunksAreAtHomeWithTheirSamples compares Home with the homes of the chunk's samples in
// several epochs.
func TestChunksAreAtHomeWithTheirSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, drawHomes(t))
		first := p.chunks
		e := p.Epoch(rapid.Uint64().Draw(t, "epoch"))
		for c := range uint64(p.chunks.len()) {
			k := p.mostHomes()
			count := make([]int, k)
			for x := first[c]; x < first[c+1]; x++ {
				count[homeOf(e, e.Position(x), k)]++
			}
			place, of := p.Home(c)
			if p.chunks.size(uint32(c)) == 0 && p.params.Shuffle == Slot {
				if of != 0 {
					t.Fatalf("Home(%d) of an empty chunk: got %d of %d, want none", c, place, of)
				}
				continue
			}
			if of != k || place >= k {
				t.Fatalf("Home(%d): got %d of %d, want one of %d", c, place, of, k)
			}
			if want := slices.Index(count, slices.Max(count)); int(place) != want && first[c] < first[c+1] {
				t.Fatalf("Home(%d): got %d, want %d, samples by home are %v", c, place, want, count)
			}
		}
		if _, of := p.Home(uint64(p.chunks.len())); of != 0 {
			t.Fatalf("Home of no chunk: got one of %d, want none", of)
		}
	})
}

func TestHomeWithImportance(t *testing.T) {
	w := &weighing{first: equal(60, 20), weights: make([]uint32, 1200)}
	for i := range w.weights {
		w.weights[i] = uint32(1000 + i%7*i)
	}
	p := w.plan(t, Params{Shuffle: Slot, Window: 6, Seed: 4})
	apart := 0
	for epoch := range uint64(5) {
		l := p.Epoch(epoch).plan.lanes
		for c := range uint64(60) {
			place, of := p.Home(c)
			if of != 6 {
				t.Fatalf("Home(%d): got one of %d, want of 6", c, of)
			}
			if lane, _ := l.home(uint32(c)); lane != place {
				apart++
			}
		}
	}
	if apart > 5 {
		t.Errorf("got %d of 300 chunks away from home, want 5 at most: a phase moves a cut by one sample", apart)
	}
	if place, of := mustPlan(t, Params{Shuffle: Full}, equal(3, 3)).Home(1); place != 0 || of != 0 {
		t.Errorf("full: got home %d of %d, want none", place, of)
	}
	if place, of := mustPlan(t, Params{Shuffle: Window, Window: 2}, equal(3, 3)).Home(1); place != 0 || of != 0 {
		t.Errorf("window without strata: got home %d of %d, want none", place, of)
	}
}

func TestCheckSharing(t *testing.T) {
	first := prefix(3, 0, 5, 2, 4, 0, 7)
	for _, c := range []struct {
		params           Params
		worldSize, homes uint64
		want             string
	}{
		{Params{Shuffle: Slot, Window: 4}, 4, 4, ""},
		{Params{Shuffle: Slot, Window: 4}, 400, 4, ""},
		{Params{Shuffle: Slot, Window: 4}, 5, 5, "share locality: 5 homes for 4 lanes: homes must be at most 4"},
		{Params{Shuffle: Slot, Window: 40}, 21, 21, ""},
		{Params{Shuffle: Slot, Window: 40}, 22, 22, "share locality: 22 homes for 21 lanes: homes must be at most 21"},
		{Params{Shuffle: Slot, Window: 40}, 0, 0, "share locality: world size is 0"},
		{Params{Shuffle: Slot, Window: 40}, 2, 0, "share locality: homes is 0"},
		{Params{Shuffle: Slot, Window: 40}, 2, 3, "share locality: 3 homes for 2 ranks: at most one home per rank is possible"},
		{Params{Shuffle: Window, Window: 8, Strata: 4}, 4, 4, ""},
		{Params{Shuffle: Window, Window: 8, Strata: 4}, 5, 4, ""},
		{Params{Shuffle: Window, Window: 8, Strata: 4}, 5, 5, "share locality: 5 homes for 4 strata: homes must be at most 4"},
		{Params{Shuffle: Window, Window: 8}, 1, 1, "share locality: shuffle window without strata has no homes: strata must be at least 1"},
		{Params{Shuffle: Full}, 1, 1, "share locality: shuffle full has no homes"},
		{Params{Shuffle: None}, 1, 1, "share locality: shuffle none has no homes"},
	} {
		err := mustPlan(t, c.params, first).CheckSharing(c.worldSize, c.homes)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%+v, %d ranks, %d homes: got %v, want %q", c.params, c.worldSize, c.homes, err, c.want)
		}
	}
	w := &weighing{first: equal(4, 2), weights: []uint32{1, 1, 0, 0, 5, 1, 0, 0}}
	p := w.plan(t, Params{Shuffle: Slot, Window: 4})
	if err := p.CheckSharing(4, 4); err != nil {
		t.Errorf("8 draws in 4 lanes, 4 homes: got %v, want nil", err)
	}
}

func TestDealHomesWithoutHomesIsContiguous(t *testing.T) {
	e := mustPlan(t, Params{Shuffle: Full}, equal(4, 4)).Epoch(0)
	if got, want := fmt.Sprint(e.DealHomes(Share{First: 4, Count: 8}, 1, 3, 3)), "[2 3 4]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := e.DealHomes(Share{Count: 8}, 3, 3, 3); got != nil {
		t.Errorf("a rank beyond the last: got %v, want none", got)
	}
}

// TestDealsOfManyBatchesAtOnce requests deals out of order and concurrently: a cached deal is used
// only for its own batch.
func TestDealsOfManyBatchesAtOnce(t *testing.T) {
	e := mustPlan(t, Params{Shuffle: Slot, Window: 10, Seed: 2}, equal(400, 7)).Epoch(0)
	done := make(chan error)
	for i := range uint64(4) {
		go func() {
			for m := range uint64(20) {
				batch := Share{First: (m + i) % 5 * KeptDeals * 20, Count: 20 - m%2} // all of these deals have the same cache slot
				if err := checkDeal(e, batch, 2+m%3, 2); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestDealHomes_RemembersTheVeryBatch requests batches that share a cache slot, for several numbers
// of ranks and homes. An epoch must return the same deals as a new epoch with an empty cache.
func TestDealHomes_RemembersTheVeryBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, drawHomes(t))
		if p.Samples() == 0 {
			return
		}
		e := p.Epoch(1)
		for range 12 {
			batch := Share{Count: rapid.SampledFrom([]uint64{9, 12}).Draw(t, "count")}
			batch.First = batch.Count * rapid.SampledFrom([]uint64{0, 1, KeptDeals}).Draw(t, "batch")
			worldSize := rapid.SampledFrom([]uint64{3, 4}).Draw(t, "world size")
			homes := rapid.SampledFrom([]uint64{2, 3}).Draw(t, "homes")
			for rank := range worldSize {
				got, want := e.DealHomes(batch, rank, worldSize, homes), p.Epoch(1).DealHomes(batch, rank, worldSize, homes)
				if !slices.Equal(got, want) {
					t.Fatalf("rank %d of %d of %+v, %d homes: got %v, want %v", rank, worldSize, batch, homes, got, want)
				}
			}
		}
	})
}

// The cache is bounded: a deal of more than 2^20 samples is computed again each time.
func TestDealHomes_ForgetsLargeBatches(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Slot, Window: 4}, []uint64{0, keptSamples, 2 * keptSamples})
	for count, want := range map[uint64]bool{keptSamples: true, keptSamples + 1: false} {
		e := p.Epoch(0)
		e.DealHomes(Share{Count: count}, 0, 2, 2)
		if got := e.deals[0].deal != nil; got != want {
			t.Errorf("a batch of %d: got remembered %v, want %v", count, got, want)
		}
	}
}

func TestLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t, drawHomes(t))
		b := Batching{
			Samples: p.Samples(), BatchSize: rapid.Uint64Range(1, 50).Draw(t, "batch size"),
			Tail: rapid.SampledFrom([]Tail{Short, Drop, Pad}).Draw(t, "tail"),
		}
		if b.Batches() == 0 {
			return
		}
		e, ranks := p.Epoch(2), rapid.Uint64Range(1, 6).Draw(t, "world size")
		rank := rapid.Uint64Range(0, ranks-1).Draw(t, "rank")
		homes := rapid.Uint64Range(0, ranks).Draw(t, "homes") // 0: the number of ranks
		m := rapid.Uint64Range(0, b.Batches()-1).Draw(t, "batch")
		c := Cursor{
			Plan: p, Epoch: e, First: m * b.BatchSize, BatchSize: b.BatchSize, Rank: rank, WorldSize: ranks, Tail: b.Tail, Homes: homes,
			Sharing: rapid.SampledFrom([]Sharing{Contiguous, Locality}).Draw(t, "sharing"),
		}
		if homes == 0 {
			homes = ranks
		}
		for n := range b.Batches() - m + 2 {
			got, ok := c.Later([]uint64{99}, n)
			whole := b.Share(m+n, 0, 1)
			if want := m+n < b.Batches() && whole.Padded == 0; ok != want {
				t.Fatalf("Later(%d) of batch %d of %d: got %v, want %v", n, m, b.Batches(), ok, want)
			}
			want := []uint64{99}
			if ok && c.Sharing == Contiguous {
				want = e.AppendShare(want, b.Share(m+n, rank, ranks))
			} else if ok {
				for _, place := range e.DealHomes(whole, rank, ranks, homes) {
					want = append(want, e.At(whole.First+uint64(place)))
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("Later(%d): got %v, want %v", n, got, want)
			}
		}
	})
}

func TestLater_ReportsUnknownSamples(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Full}, equal(4, 4))
	c := Cursor{Plan: p, Epoch: p.Epoch(0), BatchSize: 4}
	if got, ok := c.Later(nil, 3); !ok || !slices.Equal(got, c.Epoch.Append(nil, 12, 16)) {
		t.Errorf("the last batch: got %v, %v, want all its samples", got, ok)
	}
	dealt, bucketed := c, c
	dealt.Dealt, bucketed.Block = true, 8
	stranger := c
	stranger.Rank = 1
	w := &weighing{first: equal(2, 2), weights: []uint32{1, 2, 3, 4}}
	drawn := Cursor{Plan: w.plan(t, Params{Shuffle: Full}), BatchSize: 2}
	drawn.Epoch = drawn.Plan.Epoch(0)
	unplanned, closed, sizeless, ended := c, c, c, c
	unplanned.Plan, closed.Epoch, sizeless.BatchSize, ended.First = nil, nil, 0, 16
	for name, c := range map[string]Cursor{
		"dealt by length": dealt, "buckets": bucketed, "importance": drawn, "no such rank": stranger, "nothing": {},
		"no plan": unplanned, "no epoch": closed, "no batch size": sizeless, "the end": ended,
	} {
		if got, ok := c.Later(nil, 0); ok || got != nil {
			t.Errorf("%s: got %v, %v, want false", name, got, ok)
		}
	}
	for _, n := range []uint64{4, 1 << 62, 1<<64 - 1} {
		if _, ok := c.Later(nil, n); ok {
			t.Errorf("Later(%d) of 4 batches: got true, want false", n)
		}
	}
}

// TestDealsCostNoMoreThanTheirBatch deals with many more strata and ranks than samples. The memory
// of a deal depends on the batch and its ranks, not on the number of homes.
func TestDealsCostNoMoreThanTheirBatch(t *testing.T) {
	const k = MaxStrata
	p := mustPlan(t, Params{Shuffle: Window, Window: k, Strata: k, Seed: 3}, equal(30, 10))
	e := p.Epoch(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := checkDeal(e, Share{First: 50, Count: 60}, 7, 7); err != nil {
		t.Error(err)
	}
	p.Moved(Batching{Samples: 300, BatchSize: 60}, 7, 7)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > k {
		t.Errorf("a batch of 60 for 7 ranks in %d strata: got %d bytes allocated, want at most one for each stratum", k, got)
	}
}

// TestAReaderLooksAheadOfDealsThatAreKept checks that a batch is dealt once for all ranks when each
// rank reads a batch and the seven after it, like the data path does.
func TestAReaderLooksAheadOfDealsThatAreKept(t *testing.T) {
	e := mustPlan(t, Params{Shuffle: Slot, Window: 8, Seed: 2}, equal(40, 10)).Epoch(0)
	look := func(rank uint64) {
		for m := range uint64(8) {
			e.DealHomes(Share{First: 20 * m, Count: 20}, rank, 4, 4)
		}
	}
	look(0)
	var first []*homeDeal
	for i := range e.deals {
		first = append(first, e.deals[i].deal)
	}
	look(1)
	for i := range e.deals {
		if got := e.deals[i].deal; got != first[i] {
			t.Errorf("deal %d: got it computed again for the next rank, want it cached", i)
		}
	}
}

// TestRanksThatComeTogetherShareOneDeal has all ranks request a batch at the same time, like the
// ranks of one training step do.
func TestRanksThatComeTogetherShareOneDeal(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Slot, Window: 64, Seed: 2}, equal(256, 1<<10))
	batch := Share{Count: 1 << 18}
	const ranks = 64
	allocated := func(asked int) uint64 {
		e := p.Epoch(0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var all sync.WaitGroup
		for r := range asked {
			all.Go(func() { e.DealHomes(batch, uint64(r), ranks, ranks) })
		}
		all.Wait()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	one := allocated(1)
	if got := allocated(ranks) - 8*batch.Count; got > one+one/2 {
		t.Errorf("%d ranks at once: got %d bytes allocated in addition to their shares, want hardly more than the %d for one", ranks, got, one)
	}
}

func BenchmarkDealHomes(b *testing.B) {
	for _, params := range []Params{{Shuffle: Slot, Window: 128}, {Shuffle: Window, Window: 128, Strata: 64}} {
		for _, size := range []uint64{256, 1 << 18} {
			e := mustPlan(b, params, equal(1e5, 1000)).Epoch(0)
			b.Run(fmt.Sprintf("%s/%d", params.Shuffle, size), func(b *testing.B) {
				b.ReportAllocs()
				m := uint64(0)
				for b.Loop() {
					e.DealHomes(Share{First: m % 300 * size, Count: size}, 3, 64, 64)
					m++
				}
			})
		}
	}
}
