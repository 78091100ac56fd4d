package datapath

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// joined returns a fleet of two. The second gateway has read everything while it was alone; the
// first has joined since.
func joined(t *testing.T, d *dataset, order string, total int64) *fleet {
	d.store.Reset()
	f := newFleet(t, d, d.plan(t, order, 6), 2, Config{}, total)
	old, fresh := f.members[1], f.members[0]
	old.lose(0)
	must(t, f.readRank(t.Context(), t, old, 0, 48, 0, 1))
	old.find(0)
	fresh.mu.Lock()
	fresh.former = func(peer.Chunk) string { return name(1) }
	fresh.mu.Unlock()
	return f
}

// A gateway that joins gets its chunks from their former owners, and nothing from the store.
func TestFormer_NewOwnerAsksIt(t *testing.T) {
	d := newDataset(t, 80, same(480, 900), 60, 8<<10)
	for _, order := range []string{shuffle.Window, shuffle.Slot} {
		bubble.Test(t, func(t *testing.T) {
			f := joined(t, d, order, 2<<20)
			before := f.stats().StoreBytes
			must(t, f.readRank(t.Context(), t, f.members[0], 1, 48, 0, 1))
			if got := f.stats().StoreBytes - before; got != 0 || before != d.bytes() {
				t.Errorf("%s: got %d bytes from the store and then %d, want %d and 0", order, before, got, d.bytes())
			}
			if got := f.members[0].path.Stats().FormerChunks; got == 0 {
				t.Errorf("%s: got no chunk from the former owner, want some", order)
			}
			for _, q := range f.members[0].questions() {
				if q.Cached && len(q.Chunks) != 1 {
					t.Errorf("got a question for %d chunks at a time, want one", len(q.Chunks))
				}
			}
		})
	}
}

// A former owner that has no chunks, sends wrong bytes or does not answer costs one query, and the
// chunk is read from the store.
func TestFormer_Failures(t *testing.T) {
	d := newDataset(t, 81, same(240, 900), 60, 8<<10)
	for what, fault := range map[string]func(int, *peer.Query) (wireFault, error){
		"silent":  func(int, *peer.Query) (wireFault, error) { return wireFault{}, errWire },
		"stopped": func(int, *peer.Query) (wireFault, error) { return wireFault{delay: time.Hour}, nil },
		"wrong bytes": func(int, *peer.Query) (wireFault, error) {
			return wireFault{spoil: func(_ *peer.Query, dst [][]byte) { dst[0][7] ^= 1 }}, nil
		},
	} {
		bubble.Test(t, func(t *testing.T) {
			f := joined(t, d, shuffle.Window, 2<<20)
			m := f.members[0]
			m.lose(1) // the gateway owns all chunks now
			m.breaks(fault)
			must(t, f.readRank(t.Context(), t, m, 1, 48, 0, 1))
			got := m.path.Stats()
			if got.FormerChunks != 0 || got.StoreBytes != d.bytes() || got.PeerReads < formerMisses || got.PeerReads >= uint64(d.index.Chunks()) {
				t.Errorf("%s: got %d chunks from the former owner in %d questions and %d bytes from the store; want 0, %d or some more, %d",
					what, got.FormerChunks, got.PeerReads, got.StoreBytes, formerMisses, d.bytes())
			}
			if lies := int(got.PeerLies); (lies > 0) != (what == "wrong bytes") || lies != m.lies() {
				t.Errorf("%s: got %d wrong answers counted and %d reported", what, lies, m.lies())
			}
		})
	}
}

func TestFormers_DoNotCountQuestionsThatWereGivenUp(t *testing.T) {
	d := newDataset(t, 81, same(240, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		f := joined(t, d, shuffle.Window, 2<<20)
		m := f.members[0]
		m.lose(1) // the gateway owns all chunks now
		m.breaks(func(int, *peer.Query) (wireFault, error) { return wireFault{delay: formerWait / 2}, nil })
		for chunk := range formerMisses {
			ctx, cancel := context.WithCancel(t.Context())
			ended := d.reading(ctx, t, m.source, d.samplesOf(chunk))
			synctest.Wait() // wait until the former owner has received the query
			cancel()
			if got := <-ended; !errors.Is(got.err, context.Canceled) {
				t.Fatalf("got %v, want %v", got.err, context.Canceled)
			}
			synctest.Wait()
		}
		if len(m.questions()) != formerMisses || m.path.formers.silent.Paused(name(1), time.Now()) {
			t.Errorf("after %d questions that were given up the former owner is left alone, want %d and that it is not", len(m.questions()), formerMisses)
		}
	})
}

// heldOf returns the list that announces chunks of one generation.
func heldOf(chunks []peer.Chunk) peer.ChunkList {
	h := peer.ChunkList{DatasetGeneration: chunks[0].DatasetGeneration}
	for _, c := range chunks {
		h.Chunks = append(h.Chunks, uint32(c.Number))
	}
	return h
}

// The new owners load the chunks that a leaving member holds, and the next epoch reads nothing from
// the store.
func TestPull_CopiesChunksOfLeavingMember(t *testing.T) {
	d := newDataset(t, 82, same(480, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 6), 2, Config{}, 2<<20)
		stays, leaves := f.members[0], f.members[1]
		f.readEpoch(t, 0, 48)
		held := leaves.path.Held()
		if len(held) == 0 || len(held) >= d.index.Chunks() {
			t.Fatalf("got %d chunks held, want a share of %d", len(held), d.index.Chunks())
		}
		stays.mu.Lock()
		stays.former = func(peer.Chunk) string { return name(1) }
		stays.mu.Unlock()
		stays.lose(1)
		all := heldOf(held)
		all.Chunks = append(all.Chunks, uint32(d.index.Chunks()), 1<<31)
		stays.path.Pull(t.Context(), name(1), peer.ChunkList{DatasetGeneration: peer.DatasetGeneration{Dataset: all.Dataset, Generation: "other"}, Chunks: all.Chunks})
		stays.path.Pull(t.Context(), name(1), all)
		synctest.Wait() // wait for chunks that are prefetched meanwhile
		if got := stays.path.Stats().FormerChunks; got != uint64(len(held)) {
			t.Errorf("got %d chunks pulled, want %d", got, len(held))
		}
		must(t, f.readRank(t.Context(), t, stays, 1, 48, 0, 1))
		if got := f.stats().StoreBytes; got != d.bytes() {
			t.Errorf("got %d bytes from the store, want %d: the first epoch's", got, d.bytes())
		}
	})
}

// Pull evicts nothing, and ends if the member does not send a chunk that it announced.
func TestPull_UsesOnlyFreeMemory(t *testing.T) {
	d := newDataset(t, 83, same(480, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 6), 2, Config{NoPrefetch: true}, 512<<10)
		stays, leaves := f.members[0], f.members[1]
		leaves.lose(0)
		stays.lose(1)
		must(t, f.readRank(t.Context(), t, leaves, 0, 48, 0, 1))
		r, err := stays.path.budget.Reserve(t.Context(), 300<<10)
		must(t, err)
		held := leaves.path.Held()
		stays.mu.Lock()
		stays.former = func(peer.Chunk) string { return name(1) }
		stays.mu.Unlock()
		stays.path.Pull(t.Context(), name(1), heldOf(held))
		got := stays.path.Stats()
		if got.FormerChunks == 0 || got.FormerChunks >= uint64(len(held)) || got.BudgetInUse > policy.Ahead(got.BudgetTotal) || got.Evictions != 0 {
			t.Errorf("got %d of %d chunks pulled, %d bytes in use of %d, %d chunks thrown out; want a part of them, no more than %d, none",
				got.FormerChunks, len(held), got.BudgetInUse, got.BudgetTotal, got.Evictions, policy.Ahead(got.BudgetTotal))
		}
		r.Release()
		stays.breaks(func(int, *peer.Query) (wireFault, error) { return wireFault{}, errWire })
		stays.path.Pull(t.Context(), name(1), heldOf(held))
		// The member counts as silent after its last failed query. For each failed query
		// before that, one more chunk may have been read from the store.
		most := uint64(DefaultFetchers + formerMisses - 1)
		if more := stays.path.Stats(); more.StoreReads > most || more.FormerChunks != got.FormerChunks {
			t.Errorf("got %d reads of the store and %d chunks of one that is silent, want at most %d and none",
				more.StoreReads, more.FormerChunks-got.FormerChunks, most)
		}
	})
}

// A former owner sends chunks that it has in memory or on disk, and reads nothing to answer.
func TestFormer_ReadsNothing(t *testing.T) {
	d := newDataset(t, 84, same(120, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 6), 2, Config{}, 2<<20)
		m := f.members[0]
		m.former = func(peer.Chunk) string { return name(1) }
		m.lose(1)
		must(t, f.readRank(t.Context(), t, m, 0, 48, 0, 1))
		if got := f.members[1].path.Stats().StoreReads; got != 0 || m.path.Stats().PeerReads == 0 {
			t.Errorf("got %d reads of the store by the former owner after %d questions, want none after some", got, m.path.Stats().PeerReads)
		}
	})
}

// A gateway joins and receives queries for its new chunks. It gets them from their former owners;
// the store is not read again.
func TestFormer_NewOwnerAnswersFromIt(t *testing.T) {
	d := newDataset(t, 85, same(240, 900), 60, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		d.store.Reset()
		f := newFleet(t, d, d.plan(t, shuffle.Window, 6), 3, Config{NoPrefetch: true}, 2<<20)
		fresh, old, asks := f.members[0], f.members[1], f.members[2]
		for n := range 3 {
			old.lose(n)
		}
		must(t, f.readRank(t.Context(), t, old, 0, 48, 0, 1))
		fresh.former = func(peer.Chunk) string { return name(1) }
		for _, m := range f.members {
			m.find(0)
			m.lose(1)
			m.lose(2)
		}
		must(t, f.readRank(t.Context(), t, asks, 1, 48, 0, 1))
		if got, had := f.stats().StoreBytes, fresh.path.Stats().FormerChunks; got != d.bytes() || had == 0 {
			t.Errorf("got %d bytes from the store and %d chunks from the former owner, want %d and some", got, had, d.bytes())
		}
	})
}
