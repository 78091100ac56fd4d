package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// A sick member lives and answers hellos, but its answers are refusals or come late. What one
// member cannot do another one may be unable to do as well: with the store down nobody is sick. So
// only what another gateway has done in a member's place counts against it. Ejection follows
// Envoy's outlier detection: so many in a row, at most a share of the members, longer each time.
const (
	sickAfter  = 3    // questions in a row, one after the other
	hedgeShare = 0.02 // of the questions may be asked of another member too
	hedgeBurst = 8    // of them at a time
	hedgeRate  = 0.5  // of them a second: each may cost the store a chunk

	// A member gives a sign of life 10 ms after a question, sooner where the bytes are in its
	// memory. It is late where nothing is heard for that, some more, and eight times what hellos
	// take of late; the median of all members, since a sick one has slow hellos too.
	promptFloor = 20 * time.Millisecond
	promptTimes = 8

	// A member that has given a sign of life loads the bytes. It is late after twice what the
	// slowest of the last answers of all members took. Until some are known the store may be slow
	// for all: a cold one takes seconds.
	loadFloor = 250 * time.Millisecond
	loadCold  = 2 * time.Second
	fewLoads  = 8
	loadTimes = 2
	keptLoads = 64

	probeBytes = 1 << 20 // of a sample by which an ejected member is tried
)

// errLate says that another gateway was faster.
var errLate = errors.New("the member is late")

// race asks the member, and when that is late another one beside it. It returns when both have
// ended: nil if the member has answered first.
func (r *asking) race(ctx context.Context, q *peer.Query, dst [][]byte) error {
	c := r.cluster
	if r.instead == nil {
		return c.cfg.Client.Read(ctx, r.address, q, dst)
	}
	asked, giveUp := context.WithCancel(ctx)
	defer giveUp()
	prompt, _ := c.patience()
	alive, begun := make(chan struct{}, 1), make(chan struct{}, 1)
	done := make(chan error, 1)
	var other chan error
	go func() {
		done <- c.cfg.Client.Read(peer.WithProgress(asked, &peer.Progress{Alive: notify(alive), Begun: notify(begun)}), r.address, q, dst)
	}()
	late := time.NewTimer(prompt)
	defer late.Stop()
	loads := false
	for {
		select {
		case err := <-done:
			if err == nil {
				c.loaded(time.Since(r.begun))
			}
			if err == nil {
				giveUp()
			}
			if other != nil {
				r.outdone = <-other == nil && err != nil
			}
			return err
		case <-alive:
			if !loads && !r.hedged {
				loads = true
				late.Reset(loadFloor)
			}
		case <-begun:
			late.Stop()
		case <-late.C:
			if _, load := c.patience(); loads && time.Since(r.begun) < load { // it is known better by now
				late.Reset(min(load-time.Since(r.begun), loadFloor))
				continue
			}
			r.late = true
			if c.mayHedge(r.member) {
				r.hedged, other = true, make(chan error, 1)
				go func() { other <- r.instead(asked, true) }()
			}
		case err := <-other:
			other = nil
			if err == nil {
				r.outdone = true
				giveUp()
				<-done
				return fmt.Errorf("no answer for %v: %w", time.Since(r.begun).Round(time.Millisecond), errLate)
			}
		}
	}
}

// notify returns a function that puts a token into a channel that has room for one.
func notify(to chan struct{}) func() {
	return func() {
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// patience returns how long a member may take to give a sign of life, and to bring what it does not
// hold.
func (c *Cluster) patience() (prompt, load time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var hellos []time.Duration
	for _, m := range c.members {
		if !m.gone {
			hellos = append(hellos, m.latency)
		}
	}
	slices.Sort(hellos)
	prompt = promptFloor
	if len(hellos) > 0 {
		prompt += promptTimes * hellos[len(hellos)/2]
	}
	if c.nextLoad < fewLoads {
		return prompt, loadCold
	}
	return prompt, max(prompt, loadFloor, loadTimes*slices.Max(c.loads[:]))
}

// loaded notes how long an answer took.
func (c *Cluster) loaded(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads[c.nextLoad%keptLoads] = took
	c.nextLoad++
}

// earn adds to the budget of hedges what one question is worth. c.mu is held.
func (c *Cluster) earn() {
	now := time.Now()
	c.hedges = min(c.hedges+min(hedgeShare, hedgeRate*now.Sub(c.earned).Seconds()), hedgeBurst)
	c.earned = now
}

// mayHedge notes that a member is late, and takes from the budget of hedges.
func (c *Cluster) mayHedge(m *member) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.poorAt = time.Now()
	if c.hedges < 1 {
		return false
	}
	c.hedges--
	c.hedged++
	return true
}

// sick reports whether a failed question is a sign of sickness where another gateway could do it.
func sick(ctx context.Context, err error) bool {
	var no *peer.Refused
	if errors.As(err, &no) {
		return no.Code == peer.CodeStore || no.Code == peer.CodeTimeout || no.Code == peer.CodeOverloaded
	}
	return errors.Is(err, errLate) || errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// blame counts against a member that another gateway has brought what it has not, and ejects it if
// that is too often. Questions of one time are one; and a member that has been ejected of late has
// no second chance.
func (c *Cluster) blame(ctx context.Context, r *asking, q *peer.Query, err error) {
	if r.member == nil || !sick(ctx, err) {
		return
	}
	defer c.say()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := r.member
	if c.members[m.id] != m || m.gone || m.ejected || r.ejection != m.ejection || r.begun.Before(m.sickAt) {
		return
	}
	m.sick++
	m.sickAt = time.Now()
	m.poorAt = m.sickAt
	again := m.strikes > 0 && m.sickAt.Sub(m.back) < forgiven
	if m.sick < sickAfter && !again || c.most(func(o *member) bool { return o.ejected || m.sickAt.Sub(o.poorAt) < forgiven }) {
		return
	}
	m.probe = probe(q)
	c.eject(m, r.ejection, 0, fmt.Sprintf("%d questions in a row were answered elsewhere, the last since: %v", m.sick, err))
	m.sick = 0
}

// most reports whether more than half of the gateways are so, this one counted, which is not.
func (c *Cluster) most(are func(*member) bool) bool {
	all, so := 1, 0
	for _, m := range c.members {
		if m.gone {
			continue
		}
		all++
		if are(m) {
			so++
		}
	}
	return 2*so > all
}

// probe makes a small question of one that a member has not answered: its smallest sample, for no
// reader. nil where that is large.
func probe(q *peer.Query) *peer.Query {
	var small *peer.Query
	least := uint32(probeBytes)
	for _, w := range q.Chunks {
		for i, r := range w.Ranges {
			if r.Length > least {
				continue
			}
			least = r.Length
			one := w
			one.Ranges = w.Ranges[i : i+1 : i+1]
			small = &peer.Query{Dataset: q.Dataset, Generation: q.Generation, Chunks: []peer.Wanted{one}}
		}
	}
	return small
}

// try asks a sick member that has been left alone for long enough what it has not answered, beside
// the data path. It is well if the answer comes in time.
func (c *Cluster) try(ctx context.Context, k *contact) {
	c.mu.Lock()
	m := c.members[k.who]
	if m == nil || m.gone || !m.ejected || m.probe == nil || m.address != k.address || m.misses > 0 || time.Now().Before(m.until) {
		c.mu.Unlock()
		return
	}
	q := m.probe
	c.mu.Unlock()
	prompt, load := c.patience()
	asked, cancel := context.WithTimeout(ctx, load)
	defer cancel()
	begun := time.Now()
	var heard atomic.Int64 // until the first word of the member; 0: there was none before the answer
	hear := func() { heard.CompareAndSwap(0, int64(time.Since(begun))) }
	err := c.cfg.Client.Read(peer.WithProgress(asked, &peer.Progress{Alive: hear, Begun: hear}), k.address, q, [][]byte{make([]byte, q.Chunks[0].Ranges[0].Length)})
	hear()
	if ctx.Err() != nil {
		return
	}
	defer c.say()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !m.ejected || m.probe != q {
		return
	}
	if err != nil || time.Duration(heard.Load()) > prompt {
		m.until = time.Now().Add(m.cool(0))
		return
	}
	m.probe = nil // the next hello lets it in
	m.until = time.Now()
	k.awake()
}
