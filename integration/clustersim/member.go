package clustersim

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-data/millrace/cluster"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
)

// member is a process's membership of the cluster.
type member struct {
	process *process
	cluster *cluster.Cluster
	server  *peer.Server
	client  *peer.Client
}

// assemble builds a gateway like the serve command does.
func (p *process) assemble() {
	m := &member{process: p}
	p.room = m
	set, run := p.machine.set, p.machine.run
	d := run.history.Data
	p.budget = budget.New(set.Budget, 0)
	own := datapath.Config{
		Budget: p.budget, Fetchers: set.Fetchers, PartSize: set.PartSize, CheckSHA: set.CheckSHA, NoPrefetch: set.NoPrefetch,
		Policy: policy.Names()[set.Policy], Debug: true,
	}
	if run.history.Apart {
		p.path = datapath.New(own)
		p.source = p.path.Open(d.Index, reach{p, run.store, run.books}, d.Prefix)
		return
	}
	m.client = peer.NewClient(peer.ClientConfig{
		Cluster: run.history.Cluster, ID: p.machine.id, Transport: &wire{from: p, peers: run.machineAt, open: map[*process]bool{}},
	})
	m.cluster = cluster.New(cluster.Config{
		Name: run.history.Cluster, ID: p.machine.id, Boot: p.boot, Weight: uint64(set.Budget),
		Serves:    map[peer.DatasetGeneration]int{{Dataset: d.Name, Generation: d.Index.Generation()}: d.Index.Chunks()},
		Discovery: &p.machine.view, Client: m.client, Inherit: p.inherit, Log: run.log(p.boot),
	})
	own.Peers = m.cluster
	p.path = datapath.New(own)
	p.source = p.path.Open(d.Index, reach{p, run.store, run.books}, d.Prefix)
	p.source.Share(d.Name)
	m.server = peer.NewServer(peer.ServerConfig{
		Cluster: run.history.Cluster, Met: m.cluster.Met, Heard: m.heard, Log: run.log(p.boot),
		Holder: &holder{Holder: p.path, lies: &p.machine.lies, data: d, old: run.history.Old, seen: m.seen, answered: m.answered},
	})
}

// run keeps the process in the cluster until ctx ends.
func (m *member) run(ctx context.Context) {
	if m.cluster != nil {
		_ = m.cluster.Run(ctx)
	}
}

// seen checks every peer request. The request must be for a rank that reads at the requesting
// gateway, or for a chunk that one of that gateway's own clients needs.
func (m *member) seen(ctx context.Context, q *peer.Query) {
	run := m.process.machine.run
	by, ok := askedBy(ctx)
	switch {
	case !ok:
		run.wrong("%s was asked by an unknown process", m.process.boot)
	case q.Cached: // the requesting gateway owns the chunk now
	case q.Reader == nil && len(q.Chunks) == 1 && len(q.Chunks[0].Ranges) == 1: // a probe whether this gateway has recovered
	case q.Reader != nil && by.process.serves(q.Reader.Rank):
	case !slices.ContainsFunc(q.Chunks, func(w peer.ChunkQuery) bool { return by.process.wanted(w.Chunk, by.at) }):
		run.wrong("%s asked %s for chunks that none of its own clients needs, a second hop: %+v", by.process.boot, m.process.boot, q.Chunks)
	}
}

// answered traces the outcome of a peer request.
func (m *member) answered(ctx context.Context, q *peer.Query, err error) {
	if by, ok := askedBy(ctx); ok && m.process.machine.run.history.Trace != nil {
		var chunks []int
		for _, c := range q.Chunks {
			chunks = append(chunks, c.Chunk)
		}
		m.process.machine.run.trace("%s asked %s for chunks %v, cached only: %v; %v", by.process.boot, m.process.boot, chunks, q.Cached, err)
	}
}

// heard informs the data path about a reader at another gateway.
func (m *member) heard(dataset, generation string, r peer.Reader) {
	run := m.process.machine.run
	d := run.history.Data
	if dataset != d.Name || generation != d.Index.Generation() || r.Params != run.history.Params {
		run.wrong("%s heard of a reader of %s %s with %+v, whom there is not", m.process.boot, dataset, generation, r.Params)
		return
	}
	at := r.Cursor
	at.Plan, at.Epoch = run.plan, run.plan.Epoch(r.Epoch)
	m.process.path.Heard(dataset, generation, at, r.Think)
}

// inherit fetches the chunks that a leaving gateway holds.
func (p *process) inherit(ctx context.Context, member string, held []peer.ChunkList) {
	for _, h := range held {
		p.path.Pull(ctx, member, h)
	}
}

// drainTime is how long a gateway still serves after it has announced that it leaves.
const drainTime = 3 * time.Second

// drain shuts a gateway down: it informs the other gateways, accepts no new clients, serves for a
// while and then exits.
func (m *machine) drain(ctx context.Context) {
	p := m.now()
	if p == nil {
		return
	}
	if alone := !slices.ContainsFunc(m.run.machines, func(o *machine) bool { return o != m && o.settled() }); alone {
		m.run.books.lose(m.number, p.path.Held())
	}
	p.room.cluster.Drain(p.path.Held()) // a peer that does not receive this reads from the store
	if objstore.Sleep(ctx, drainTime) != nil || m.now() != p {
		return
	}
	m.leave(false) // its heirs have fetched its chunks
}
