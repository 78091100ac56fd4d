package datapath

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/shuffle"
)

// TestSource_AsksForChunksWithoutALock checks lookups with CheckSHA, which must also find chunks of
// other datasets. Even so, a lookup of a chunk that is not in memory takes no lock of the cache,
// since callers may hold the readers' lock.
func TestSource_AsksForChunksWithoutALock(t *testing.T) {
	d := newDataset(t, 9, same(40, 1000), 4, 1<<20)
	p := newPath(t, Config{Budget: bud(1 << 20), CheckSHA: true, NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	locked := func(missing []int) [][]int { // called under the cache's lock
		answered := make(chan bool)
		go func() {
			answered <- s.Resident(5) || s.whereIs(5) != notHere
		}()
		select {
		case there := <-answered:
			if there {
				t.Error("a chunk is there that was not loaded")
			}
		case <-time.After(10 * time.Second):
			t.Error("where a chunk is was not answered under the cache's lock, want it without the lock")
			go func() { <-answered }()
		}
		return [][]int{missing}
	}
	publish := func(_ context.Context, fills []*chunkcache.Fill[key]) error {
		fills[0].Publish()
		return nil
	}
	wait, err := p.cache.Start(t.Context(), chunkcache.Request[key]{Table: s.chunks, Chunks: []int{0}, Group: locked, Load: publish})
	must(t, err)
	l, err := wait()
	must(t, err)
	l.Close()
}

// TestSource_FindsChunksOfOtherDatasets checks that a batch and a prefetch find chunks that another
// dataset has loaded, and load nothing.
func TestSource_FindsChunksOfOtherDatasets(t *testing.T) {
	d := newDataset(t, 9, same(40, 1000), 4, 1<<20)
	p := newPath(t, Config{Budget: bud(1 << 20), CheckSHA: true, NoPrefetch: true})
	d.readEpoch(t, p.Open(d.index, d.store, "set/"), d.plan(t, shuffle.None, 0), 0, 8)
	before := p.Stats().Loads
	for name, find := range map[string]func(s *Source){
		"batch": func(s *Source) {
			_, err := s.newBatch(d.ranges(t, []uint64{5}))
			must(t, err)
		},
		"fetch ahead": func(s *Source) {
			var started sync.WaitGroup
			var full bool
			if !p.fetch(t.Context(), lookahead.Need{Dataset: s, Chunk: d.index.ChunkOf(5), Samples: 1}, time.Now(), &started, &full) {
				t.Error("a chunk that is there ends the fetches ahead, want the next need")
			}
			started.Wait()
		},
	} {
		s := p.Open(d.index, d.store, "set/")
		if find(s); s.whereIs(d.index.ChunkOf(5)) != inMemory {
			t.Errorf("%s: got a chunk in memory not found, want it found", name)
		}
	}
	if got := p.Stats().Loads; got != before {
		t.Errorf("got %d loads of chunks that are there, want none", got-before)
	}
}
