package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// scripted is a cluster of gateways a, b and c, which own all chunks in this order. Each gateway
// answers as the test specifies.
type scripted struct {
	alone
	*dataset
	answers map[string]answerScript

	mu          sync.Mutex // guards the fields below
	asked       []string
	sendsOthers []string
}

// answerScript simulates the answer of one gateway to a query; instead gets the bytes from
// elsewhere.
type answerScript = func(ctx context.Context, s *scripted, q *peer.Query, dst [][]byte, instead Instead) error

func (s *scripted) Owner(_ peer.Chunk, asked ...string) string {
	for _, name := range []string{"a", "b", "c"} {
		if !slices.Contains(asked, name) {
			return name
		}
	}
	return ""
}

func (s *scripted) Lied(member string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendsOthers = append(s.sendsOthers, member)
}

func (s *scripted) Read(ctx context.Context, member string, q *peer.Query, dst [][]byte, instead Instead) error {
	s.mu.Lock()
	s.asked = append(s.asked, member)
	s.mu.Unlock()
	return s.answers[member](ctx, s, q, dst, instead)
}

// send fills dst with the requested bytes.
func (s *scripted) send(q *peer.Query, dst [][]byte) {
	n := 0
	for _, c := range q.Chunks {
		for _, r := range c.Ranges {
			copy(dst[n], s.stored(c.Chunk, batch.Range{Offset: r.Offset, Length: r.Length}))
			n++
		}
	}
}

var errSilent = errors.New("no answer")

func sends(_ context.Context, s *scripted, q *peer.Query, dst [][]byte, _ Instead) error {
	s.send(q, dst)
	return nil
}

// sendsOthers fills the segments with other bytes.
func sendsOthers(_ context.Context, s *scripted, q *peer.Query, dst [][]byte, _ Instead) error {
	s.send(q, dst)
	dst[0][0] ^= 1
	return nil
}

// fails is an answer that fails. It then gets the same bytes from elsewhere, as the peer client
// does.
func fails(ctx context.Context, _ *scripted, _ *peer.Query, dst [][]byte, instead Instead) error {
	clear(dst[0])
	if instead != nil && instead(ctx, false) == nil {
		return errors.Join(peer.ErrOutdone, errSilent)
	}
	return errSilent
}

// beaten is an answer that is late, and writes wrong bytes while the same bytes arrive from
// elsewhere.
func beaten(ctx context.Context, _ *scripted, _ *peer.Query, dst [][]byte, instead Instead) error {
	err := instead(ctx, true)
	for _, b := range dst {
		for i := range b {
			b[i] = 0xEE
		}
	}
	if err == nil {
		return errors.Join(peer.ErrOutdone, errSilent)
	}
	return errSilent
}

// comes is a late answer. It arrives after the same bytes have arrived from elsewhere.
func comes(ctx context.Context, s *scripted, q *peer.Query, dst [][]byte, instead Instead) error {
	_ = instead(ctx, true)
	s.send(q, dst)
	return nil
}

// breaks is a late answer that fails although the same bytes have arrived from elsewhere: the
// client treats those as lost too.
func breaks(ctx context.Context, _ *scripted, _ *peer.Query, _ [][]byte, instead Instead) error {
	_ = instead(ctx, true)
	return errSilent
}

// Whether owners answer or not, a batch has the right bytes and counts each sample for the tier
// that delivered it. Nothing remains held.
func TestOwners_AnyAnswerGivesTheRightBytes(t *testing.T) {
	d := newDataset(t, 310, same(60, 900), 20, 8<<10)
	chunks := d.ranges(t, []uint64{1, 2, 12, 33, 47})
	const all = 5 * 1536 // total bytes of the samples
	for name, c := range map[string]struct {
		answers     map[string]answerScript
		asked, lied string
		peer        int64 // bytes that peers delivered; the store delivered the rest
		failed      uint64
		full        bool // no memory is left for a second copy
		down        bool // the store fails
		want        error
	}{
		"sent":                  {map[string]answerScript{"a": sends}, "a", "", all, 0, false, true, nil},
		"one sends wrong bytes": {map[string]answerScript{"a": sendsOthers}, "a", "a", all - 1536, 0, false, false, nil},
		"one sends wrong bytes, and the store fails": {map[string]answerScript{"a": sendsOthers}, "a", "a", 0, 0, false, true, errDown},
		"one fails":                           {map[string]answerScript{"a": fails, "b": sends}, "ab", "", all, 1, false, true, nil},
		"two fail":                            {map[string]answerScript{"a": fails, "b": fails, "c": sends}, "abc", "", all, 2, false, true, nil},
		"all fail":                            {map[string]answerScript{"a": fails, "b": fails, "c": fails}, "abc", "", 0, 3, false, false, nil},
		"all fail, and the store":             {map[string]answerScript{"a": fails, "b": fails, "c": fails}, "abc", "", 0, 3, false, true, errDown},
		"late and beaten":                     {map[string]answerScript{"a": beaten, "b": sends}, "ab", "", all, 1, false, true, nil},
		"late, and another sends wrong bytes": {map[string]answerScript{"a": beaten, "b": sendsOthers}, "ab", "b", all - 1536, 1, false, false, nil},
		"late, and the other fails too":       {map[string]answerScript{"a": beaten, "b": fails, "c": sends}, "abc", "", all, 2, false, true, nil},
		"late, and both late":                 {map[string]answerScript{"a": beaten, "b": beaten, "c": sends}, "abc", "", all, 2, false, true, nil},
		"late, and the store is as quick":     {map[string]answerScript{"a": beaten, "b": fails, "c": fails}, "abc", "", 0, 3, false, false, nil},
		"late, and all else fails":            {map[string]answerScript{"a": beaten, "b": fails, "c": fails}, "abc", "", 0, 3, false, true, errDown},
		"late, and there after all":           {map[string]answerScript{"a": comes, "b": sends}, "ab", "", all, 0, false, true, nil},
		"late, there after all, others not":   {map[string]answerScript{"a": comes, "b": fails, "c": fails}, "abc", "", all, 2, false, true, nil},
		"late and there, no memory to hedge":  {map[string]answerScript{"a": comes}, "a", "", all, 0, true, true, nil},
		"late and lost, no memory to hedge":   {map[string]answerScript{"a": beaten}, "a", "", 0, 1, true, false, nil},
		"late and lost, and so is the hedge":  {map[string]answerScript{"a": breaks, "b": sends}, "ab", "", 0, 1, false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				peers := &scripted{dataset: d, answers: c.answers}
				total := int64(8 << 20)
				if c.full {
					total = 10 << 10
				}
				p := newPath(t, Config{Budget: bud(total), Peers: peers, NoPrefetch: true})
				s := p.Open(d.index, d.store, "set/")
				s.Share("set")
				if c.down {
					d.store.SetFault(down)
					defer d.store.SetFault(nil)
				}
				body, err := s.Read(t.Context(), shuffle.Cursor{}, chunks)
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				asked, lied := "", ""
				for _, member := range peers.asked {
					asked += member
				}
				for _, member := range peers.sendsOthers {
					lied += member
				}
				if st := p.Stats(); asked != c.asked || lied != c.lied || st.PeerFailed != c.failed || int(st.PeerReads) != len(c.asked) || int(st.PeerLies) != len(c.lied) {
					t.Errorf("got %q asked, wrong bytes of %q, %d failures; want %q, %q and %d", asked, lied, st.PeerFailed, c.asked, c.lied, c.failed)
				}
				if err == nil {
					must(t, d.check(chunks, body))
					tiersAre(t, body, all, c.peer)
					body.Close()
				}
				synctest.Wait() // wait until abandoned loads have ended
				p.idle(t, "answered")
				if pinned := p.budget.Pinned(); pinned != 0 {
					t.Errorf("got %d bytes pinned after the body is closed, want none", pinned)
				}
			})
		})
	}
}

// tiersAre checks the tiers of a body of `all` bytes: peers delivered `sent` of them, and the store
// the rest.
func tiersAre(t *testing.T, body *batch.Body, all, sent int64) {
	t.Helper()
	got := map[string]int64{}
	for _, tier := range body.Tiers {
		got[tier.Tier] += tier.Bytes
	}
	if got["peer"] != sent || got["store"] != all-sent || got["memory"] != 0 {
		t.Errorf("got bytes by tier %v, want %d of peers and %d of the store", got, sent, all-sent)
	}
}

// halves is a cluster in which a owns all chunks except the first.
type halves struct{ scripted }

func (h *halves) Owner(c peer.Chunk, asked ...string) string {
	if c.Number == 0 {
		return ""
	}
	return h.scripted.Owner(c, asked...)
}

// If the near part of a batch fails, the batch does not wait for the owners of the far part. If the
// client leaves, the batch waits for neither part.
func TestOwners_AreLeftWhenTheOwnPartFails(t *testing.T) {
	d := newDataset(t, 311, same(60, 900), 20, 8<<10)
	chunks := d.ranges(t, []uint64{1, 12, 33, 47})
	hangs := func(ctx context.Context, _ *scripted, _ *peer.Query, _ [][]byte, _ Instead) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	gone := errors.New("the client has gone")
	for name, c := range map[string]struct {
		fault memstore.Fault
		want  error
	}{
		"fails":   {memstore.Fault{Delay: time.Second, Err: errDown}, errDown},
		"is left": {memstore.Fault{Stall: true}, gone},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				peers := &halves{scripted{dataset: d, answers: map[string]answerScript{"a": hangs, "b": sends, "c": sends}}}
				p := newPath(t, Config{Budget: bud(8 << 20), Peers: peers, NoPrefetch: true})
				s := p.Open(d.index, d.store, "set/")
				s.Share("set")
				d.store.SetFault(func(memstore.Call) memstore.Fault { return c.fault })
				defer d.store.SetFault(nil)
				ctx, leave := context.WithCancelCause(t.Context())
				time.AfterFunc(2*time.Second, func() { leave(gone) })
				begun := time.Now()
				_, err := s.Read(ctx, shuffle.Cursor{}, chunks)
				if took, most := time.Since(begun), 2*time.Second; !errors.Is(err, c.want) || took > most || name == "fails" && took != time.Second {
					t.Errorf("got %v after %v, want %v", err, took, c.want)
				}
				synctest.Wait()
				p.idle(t, "ended")
				leave(nil)
			})
		})
	}
}

// Held lists the chunks in memory of shared datasets, the one due soonest first.
func TestHeld_ListsSharedChunksInMemory(t *testing.T) {
	d := newDataset(t, 312, same(60, 900), 20, 8<<10)
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(8 << 20), Peers: alone{}, NoPrefetch: true})
		shared, own := p.Open(d.index, d.store, "set/"), p.Open(d.index, d.store, "set/")
		shared.Share("set")
		plan := d.plan(t, shuffle.None, 0)
		read := func(s *Source, lo, hi uint64) {
			at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: lo, End: hi, BatchSize: 10}
			body, err := s.Read(t.Context(), at, d.ranges(t, at.Epoch.Append(nil, lo, hi)))
			must(t, err)
			body.Close()
		}
		for lo := uint64(0); lo < 30; lo += 10 {
			read(shared, lo, lo+10)
			read(own, lo, lo+10)
		}
		d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: time.Second} })
		defer d.store.SetFault(nil)
		var late sync.WaitGroup
		late.Go(func() { read(shared, 50, 60) })
		synctest.Wait()
		got := p.Held()
		var due []time.Duration
		for _, c := range got {
			if c.Dataset != "set" || c.Generation != d.index.Generation() || c.Digest != d.index.Chunk(c.Number).Digest || !shared.Resident(c.Number) || shared.whereIs(c.Number) != inMemory {
				t.Errorf("got %+v, want a chunk of the shared dataset in memory", c)
			}
			due = append(due, p.readers.NextUse(shared, c.Number).In)
		}
		last := d.index.ChunkOf(29)
		if len(got) != last+1 || !slices.IsSorted(due) {
			t.Errorf("got %d chunks due in %v, want %d, the soonest first", len(got), due, last+1)
		}
		late.Wait()
	})
}
