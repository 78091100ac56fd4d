package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// world is a network of gateways in one process, under a fake clock.
type world struct {
	t     *testing.T
	mu    sync.Mutex
	nodes map[string]*node                       // the current listener, by address
	cut   func(from, to string) bool             // reports whether a link is cut, by address; a cut link passes nothing
	read  func(from, to string) error            // returns the result of a read; nil: all reads succeed with zeros
	mute  time.Duration                          // time that a member takes until it sends a sign of life
	loads time.Duration                          // time that a member takes after a sign of life
	reads []string                               // from>to
	told  map[string]map[string][]peer.ChunkList // by ID of the new owner and of the draining member: the chunks to take over
	hello func(from string, h *peer.Hello)       // modifies a gateway's hello
	early func(c *Cluster)                       // called before a gateway runs
	slow  map[string]time.Duration               // how long a gateway takes to answer a hello, by address
	peers map[string]int                         // how many gateways each gateway knows, as its client was told, by address
}

// node is one running gateway.
type node struct {
	*Cluster
	address string
	end     func()
}

func newWorld(t *testing.T) *world {
	return &world{t: t, nodes: map[string]*node{}, told: map[string]map[string][]peer.ChunkList{}, peers: map[string]int{}}
}

// inWorld runs a test under a fake clock.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(t, w)
		for _, n := range w.nodes {
			n.end()
		}
		synctest.Wait()
	})
}

// list is a discovery with a fixed list of addresses.
type list []string

func (l list) Again() {}

func (l list) Run(ctx context.Context, found func([]string)) error {
	found(l)
	<-ctx.Done()
	return ctx.Err()
}

// pass is a PeerClient that sends through the world.
type pass struct {
	w    *world
	from string
}

func (p pass) to(ctx context.Context, address string) (*node, error) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	n := p.w.nodes[address]
	if n == nil || p.w.cut != nil && p.w.cut(p.from, address) {
		return nil, fmt.Errorf("dial %s: %w", address, peer.ErrDown)
	}
	return n, ctx.Err()
}

func (p pass) Hello(ctx context.Context, address string, h peer.Hello) (peer.Hello, error) {
	n, err := p.to(ctx, address)
	if err != nil {
		return peer.Hello{}, err
	}
	time.Sleep(p.w.slow[address])
	if p.w.hello != nil {
		p.w.hello(p.from, &h)
	}
	theirs, err := n.Met(h, p.from)
	if err != nil {
		return peer.Hello{}, &peer.RefusalError{Status: 403, Code: peer.CodeRefused, Detail: err.Error()}
	}
	if p.w.hello != nil {
		p.w.hello(address, &theirs)
	}
	return theirs, nil
}

func (p pass) Expect(peers int) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.peers[p.from] = peers
}

func (p pass) Read(ctx context.Context, address string, _ *peer.Query, dst [][]byte) error {
	p.w.mu.Lock()
	p.w.reads = append(p.w.reads, p.from+">"+address)
	p.w.mu.Unlock()
	if _, err := p.to(ctx, address); err != nil {
		return err
	}
	time.Sleep(p.w.mute)
	if p.w.loads > 0 {
		peer.ProgressOf(ctx).Alive()
		time.Sleep(p.w.loads)
	}
	if p.w.read != nil {
		return p.w.read(p.from, address)
	}
	for _, d := range dst {
		clear(d)
	}
	return nil
}

// at returns the address of gateway i.
func at(i int) string { return fmt.Sprintf("10.0.0.%d:7946", i+1) }

const generation = "g0"

// join starts gateway i, whose discovery lists the addresses of some others. change alters its
// configuration.
func (w *world) join(i int, others []int, change func(*Config)) *node {
	w.t.Helper()
	var known list
	for _, o := range others {
		known = append(known, at(o))
	}
	cfg := Config{
		Name: "job-a", ID: fmt.Sprintf("gw-%d", i), Boot: fmt.Sprintf("boot-%d", i), Weight: 1 << 30,
		Serves: map[peer.DatasetGeneration]int{{Dataset: "photos", Generation: generation}: 1000}, Discovery: known, Log: zerolog.Nop(),
	}
	if change != nil {
		change(&cfg)
	}
	cfg.Client = pass{w, at(i)}
	cfg.Inherit = func(_ context.Context, member string, held []peer.ChunkList) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.told[cfg.ID] == nil {
			w.told[cfg.ID] = map[string][]peer.ChunkList{}
		}
		w.told[cfg.ID][member] = append(w.told[cfg.ID][member], held...)
	}
	c := New(cfg)
	if w.early != nil {
		w.early(c)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	n := &node{Cluster: c, address: at(i)}
	n.end = func() {
		cancel()
		<-ended
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.nodes[at(i)] == n {
			delete(w.nodes, at(i))
		}
	}
	w.mu.Lock()
	w.nodes[at(i)] = n
	w.mu.Unlock()
	go func() {
		defer close(ended)
		_ = c.Run(ctx)
	}()
	return n
}

// fleet starts n gateways that know each other from a list.
func (w *world) fleet(n int) []*node {
	w.t.Helper()
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	nodes := make([]*node, n)
	for i := range nodes {
		nodes[i] = w.join(i, all, nil)
	}
	w.pass(3 * time.Second)
	return nodes
}

// pass advances the clock.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// asked returns the reads since the last call of asked, each as from>to.
func (w *world) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.reads
	w.reads = nil
	return all
}

func chunk(i int) peer.Chunk {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(i))
	return peer.Chunk{DatasetGeneration: peer.DatasetGeneration{Dataset: "photos", Generation: generation}, Number: i, Digest: sha256.Sum256(b[:])}
}

// ofOwner returns the first chunk whose owner is the given member in a gateway's view.
func ofOwner(t *testing.T, n *node, owner string) peer.Chunk {
	t.Helper()
	for i := range 1000 {
		if n.Owner(chunk(i)) == owner {
			return chunk(i)
		}
	}
	t.Fatalf("%s knows no chunk of %q", n.cfg.ID, owner)
	return peer.Chunk{}
}

// owned returns the number of chunks that each member owns, by ID, in a gateway's view.
func owned(n *node) map[string]int {
	out := map[string]int{}
	for i := range 1000 {
		id := n.Owner(chunk(i))
		if id == "" {
			id = n.cfg.ID
		}
		out[id]++
	}
	return out
}

// states returns the state of each member that a gateway knows.
func states(n *node) map[string]State {
	out := map[string]State{}
	for _, m := range n.Status().Members {
		out[m.ID] = m.State
	}
	return out
}

// refusals returns the status of the gateways that are not members.
func refusals(n *node) []string {
	var out []string
	for _, o := range n.Status().Others {
		if o.State == Refused {
			out = append(out, o.Reason)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func query(c peer.Chunk) *peer.Query {
	return &peer.Query{Dataset: c.Dataset, Generation: c.Generation}
}
