package datapath

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/internal/objstore"
)

// TestPath_StatsReportEachCounter checks that every counter of the path is in the field of its
// name.
func TestPath_StatsReportEachCounter(t *testing.T) {
	disk, err := diskcache.Open(diskcache.Config{Dir: t.TempDir(), MaxBytes: 1 << 20})
	must(t, err)
	p := newPath(t, Config{Budget: bud(1 << 20), Fetchers: 5, Disk: disk})
	defer disk.Close()
	counters := []interface{ Add(uint64) uint64 }{
		&p.readsOf("").reads, &p.readsOf("").bytes, &p.rangeReads, &p.rangeBytes, &p.prefetched, &p.peerCounts.reads, &p.peerCounts.bytes,
		&p.peerCounts.failed, &p.peerCounts.lies, &p.peerCounts.servedReads, &p.peerCounts.servedBytes, &p.peerCounts.former,
		&p.ahead.hits, &p.ahead.bytes, &p.hot.hits, &p.hot.hitBytes, &p.disk.dropped,
	}
	for i, c := range counters {
		c.Add(uint64(i + 1))
	}
	held, ok := p.TryReserve(3000)
	if !ok {
		t.Fatal("got no memory of an empty budget")
	}
	held()
	held, _ = p.TryReserve(1000)
	defer held()
	s := p.Stats()
	got := []uint64{
		s.StoreReads, s.StoreBytes, s.RangeReads, s.RangeBytes, s.PrefetchedChunks, s.PeerReads, s.PeerBytes,
		s.PeerFailed, s.PeerLies, s.PeerServedReads, s.PeerServedBytes, s.FormerChunks,
		s.CarriedHits, s.CarriedBytes, s.HotHits, s.HotHitBytes, s.DiskDropped,
	}
	for i, n := range got {
		if n != uint64(i+1) {
			t.Errorf("counter %d: got %d, want %d", i, n, i+1)
		}
	}
	if s.BudgetTotal != 1<<20 || s.BudgetInUse != 1000 || s.BudgetPeak != 3000 || s.StorePlaces != 5 {
		t.Errorf("got %d of %d bytes in use, at most %d, and %d places; want 1000 of %d, 3000 and 5",
			s.BudgetInUse, s.BudgetTotal, s.BudgetPeak, s.StorePlaces, 1<<20)
	}
}

// TestPath_StatsReportTheCache checks that the cache's counters are in the fields of the same
// names.
func TestPath_StatsReportTheCache(t *testing.T) {
	d := newDataset(t, 1, same(40, 3000), 10, 1<<20)
	p := newPath(t, Config{Budget: bud(8 << 20), NoPrefetch: true})
	s := p.Open(d.index, d.store, "set/")
	chunks := d.ranges(t, []uint64{1, 12, 33})
	for range 2 {
		body, err := s.Read(t.Context(), first(d.plan(t, "none", 0), 0, 20), chunks)
		must(t, err)
		if got := p.Stats().OpenLeases; got != 3 {
			t.Errorf("got %d open leases of a body of three chunks, want 3", got)
		}
		body.Close()
	}
	got, c := p.Stats(), p.cache.Stats()
	if got.Hits != 3 || got.Misses != 3 || got.Loads != 3 || got.Joins != 0 || got.CachedChunks != 3 || got.OpenLeases != 0 {
		t.Errorf("got %+v, want three chunks loaded, and then found", got)
	}
	if got.CachedBytes != c.Bytes || got.CachedBytes == 0 || got.TableBytes != p.tables.Bytes() {
		t.Errorf("got %d bytes of chunks and %d of tables, want %d and %d", got.CachedBytes, got.TableBytes, c.Bytes, p.tables.Bytes())
	}
}

// refusing is a cluster whose members answer each query with err, or with success if it is nil.
type refusing struct {
	alone
	err error
}

func (a refusing) Read(context.Context, string, *peer.Query, [][]byte, Instead) error { return a.err }

func (refusing) Lied(string) {}

// TestPath_ReadCountsTheFailuresOfMembers checks which answers count as failures. A member that
// does not have the chunk has not failed, and a canceled query is no failure. A timeout is one.
func TestPath_ReadCountsTheFailuresOfMembers(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	late, end := context.WithTimeout(t.Context(), 0)
	defer end()
	for name, c := range map[string]struct {
		ctx           context.Context
		err           error
		bytes, failed uint64
	}{
		"answered":         {t.Context(), nil, 5, 0},
		"not here":         {t.Context(), fmt.Errorf("asked: %w", peer.ErrNotHere), 0, 0},
		"not here, left":   {left, peer.ErrNotHere, 0, 0},
		"left":             {left, context.Canceled, 0, 0},
		"left, other":      {left, peer.ErrDown, 0, 0},
		"late":             {late, context.DeadlineExceeded, 0, 1},
		"down":             {t.Context(), peer.ErrDown, 0, 1},
		"outdone":          {t.Context(), peer.ErrOutdone, 0, 1},
		"not served":       {t.Context(), peer.ErrNotServed, 0, 1},
		"no room in quota": {t.Context(), peer.ErrQuota, 0, 0},
		"no room":          {t.Context(), peer.ErrNoRoom, 0, 1},
		"canceled by peer": {t.Context(), context.Canceled, 0, 1},
	} {
		p := newPath(t, Config{Budget: bud(1 << 20), Peers: refusing{err: c.err}})
		err := p.read(c.ctx, "a", &peer.Query{}, [][]byte{make([]byte, 2), make([]byte, 3)}, nil)
		got := p.Stats()
		if !errors.Is(err, c.err) || got.PeerReads != 1 || got.PeerBytes != c.bytes || got.PeerFailed != c.failed {
			t.Errorf("%s: got %v, %d questions, %d bytes, %d failed; want %v, 1, %d, %d",
				name, err, got.PeerReads, got.PeerBytes, got.PeerFailed, c.err, c.bytes, c.failed)
		}
	}
}

// TestLocal_ErrorsOfOnePlace checks that only errors that may concern one range justify reading
// other ranges of an object.
func TestLocal_ErrorsOfOnePlace(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, objstore.ErrUnavailable: true, objstore.ErrTimeout: true, objstore.ErrShort: true,
		objstore.ErrNotFound: false, objstore.ErrChanged: false, objstore.ErrDenied: false, objstore.ErrThrottled: false,
		context.Canceled: false,
	} {
		for _, err := range []error{err, fmt.Errorf("read: %w", err)} {
			if got := local(err); got != want {
				t.Errorf("%v: got %v, want %v", err, got, want)
			}
		}
	}
}
