package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	limiter "golang.org/x/time/rate"

	"github.com/millrace-data/millrace/cluster"
	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/shuffle"
)

// fleet is a set of gateways that share one cache. Each has its own memory and a link of fixed rate
// to the others. They use the product's data path, cluster and peer protocol over loopback; only
// the port for clients is missing.
type fleet struct {
	data      *data
	members   []*member
	addresses []string // between gateways
}

// member is one gateway of a fleet.
type member struct {
	*gateway
	cluster *cluster.Cluster
	leave   func() error // stops the member abruptly
	gone    bool

	mu     sync.Mutex // guards the fields below
	plan   *shuffle.Plan
	epochs map[uint64]*shuffle.Epoch
}

// dataset is the name of the data in the peer protocol.
const dataset = "d"

// fleetConfig describes a fleet.
type fleetConfig struct {
	name     string
	gateways int
	room     int64   // memory of each gateway, in bytes
	link     float64 // bytes per second that each gateway can send to others; 0: no limit
	carry    int64   // as datapath.Config.CarryBytes
	apart    bool    // the gateways do not know one another
	met      *fleet  // a cluster whose addresses these gateways know too; only the cluster name separates both clusters
}

// newFleet starts gateways with empty caches, and returns when each gateway sees all others.
func (d *data) newFleet(ctx context.Context, cfg fleetConfig) (*fleet, error) {
	f := &fleet{data: d}
	var listeners []net.Listener
	var addresses []string
	for range cfg.gateways {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners, addresses = append(listeners, ln), append(addresses, ln.Addr().String())
	}
	f.addresses = addresses
	if cfg.met != nil {
		addresses = append(slices.Clone(addresses), cfg.met.addresses...)
	}
	for i, ln := range listeners {
		m, err := d.join(ctx, cfg, i, addresses, ln)
		if err != nil {
			return nil, errors.Join(err, f.stop())
		}
		f.members = append(f.members, m)
	}
	if cfg.apart {
		return f, nil
	}
	return f, f.settle(ctx, cfg.gateways)
}

// owned returns the number of chunks that each gateway owns.
func (f *fleet) owned() []int64 {
	all := make([]int64, len(f.members))
	for i, m := range f.members {
		for c := range f.data.chunks {
			ch := peer.Chunk{DatasetGeneration: peer.DatasetGeneration{Dataset: dataset, Generation: f.data.index.Generation()}, Number: c, Digest: f.data.index.Chunk(c).Digest}
			if m.cluster.Owner(ch) == "" {
				all[i]++
			}
		}
	}
	return all
}

// settle waits until each running gateway sees the given number alive, itself included.
func (f *fleet) settle(ctx context.Context, want int) error {
	for end := time.Now().Add(30 * time.Second); ; {
		all := true
		for _, m := range f.members {
			if m.gone {
				continue
			}
			alive := 1
			for _, o := range m.cluster.Status().Members {
				if o.State == cluster.Alive {
					alive++
				}
			}
			all = all && alive == want
		}
		if all || ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d gateways have not found each other", want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// join starts one gateway.
func (d *data) join(ctx context.Context, cfg fleetConfig, i int, addresses []string, ln net.Listener) (*member, error) {
	m := &member{epochs: map[uint64]*shuffle.Epoch{}}
	var err error
	if cfg.apart {
		m.gateway, err = d.open(ctx, datapath.Config{}, cfg.room)
		m.leave = sync.OnceValue(func() error {
			m.gone = true
			return errors.Join(ln.Close(), m.stop())
		})
		return m, err
	}
	id := fmt.Sprintf("%s-%d", cfg.name, i)
	client := peer.NewClient(peer.ClientConfig{Cluster: cfg.name, ID: id})
	m.cluster = cluster.New(cluster.Config{
		Name: cfg.name, ID: id, Boot: id, Weight: uint64(cfg.room),
		Serves:    map[peer.DatasetGeneration]int{{Dataset: dataset, Generation: d.index.Generation()}: d.index.Chunks()},
		Discovery: discovery.New(discovery.Join{Targets: addresses}, zerolog.Nop()), Client: client, Log: zerolog.Nop(),
	})
	m.gateway, err = d.open(ctx, datapath.Config{Peers: m.cluster, CarryBytes: cfg.carry}, cfg.room)
	if err != nil {
		return nil, err
	}
	m.source.Share(dataset)
	server := peer.NewServer(peer.ServerConfig{
		Cluster: cfg.name, Met: m.cluster.Met, Holder: m.path, Heard: m.heard, Log: zerolog.Nop(),
		DrainTime: time.Millisecond, // a stopped gateway leaves without waiting
	})
	run, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	running.Go(func() error { return server.Serve(run, newLink(ln, cfg.link)) })
	running.Go(func() error { return m.cluster.Run(run) })
	m.leave = sync.OnceValue(func() error {
		m.gone = true
		cancel()
		err := running.Wait()
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			err = nil // running responses are aborted
		}
		client.Close()
		return errors.Join(err, m.stop())
	})
	return m, nil
}

// heard makes the data path prefetch for a reader of another gateway.
func (m *member) heard(name, generation string, r peer.Reader) {
	plan, epoch, err := m.at(r.Params, r.Epoch)
	if err != nil {
		return
	}
	at := r.Cursor
	at.Plan, at.Epoch = plan, epoch
	m.path.Heard(name, generation, at, r.Think)
}

// at returns an epoch of the plan with which the fleet is being read.
func (m *member) at(params shuffle.Params, number uint64) (*shuffle.Plan, *shuffle.Epoch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.plan == nil || m.plan.Params() != params {
		plan, err := shuffle.NewPlan(params, m.index.First())
		if err != nil {
			return nil, nil, err
		}
		m.plan, m.epochs = plan, map[uint64]*shuffle.Epoch{}
	}
	if m.epochs[number] == nil {
		m.epochs[number] = m.plan.Epoch(number)
	}
	return m.plan, m.epochs[number], nil
}

// stop stops all gateways.
func (f *fleet) stop() error {
	var all error
	for _, m := range f.members {
		all = errors.Join(all, m.leave())
	}
	return all
}

// traffic counts reads from the store and data sent between gateways.
type traffic struct{ storeReads, storeBytes, peerReads, peerBytes, carried, former int64 }

func (t traffic) minus(u traffic) traffic {
	return traffic{
		t.storeReads - u.storeReads, t.storeBytes - u.storeBytes, t.peerReads - u.peerReads, t.peerBytes - u.peerBytes,
		t.carried - u.carried, t.former - u.former,
	}
}

// traffic returns the counters of the store, and the sums over the running gateways.
func (f *fleet) traffic() (t traffic) {
	given := f.data.store.Stats()
	t.storeReads, t.storeBytes = given.Reads, given.BytesRead
	for _, m := range f.members {
		if m.gone {
			continue
		}
		s := m.path.Stats()
		t.peerReads += int64(s.PeerReads)
		t.peerBytes += int64(s.PeerBytes)
		t.carried += int64(s.CarriedHits)
		t.former += int64(s.FormerChunks)
	}
	return t
}

// task describes how the ranks of a training job read an epoch from a fleet.
type task struct {
	params  shuffle.Params
	epoch   uint64
	ranks   int
	sharing shuffle.Sharing
	rate    float64 // bytes per second that a rank consumes; 0: no limit
}

// epochRead is a job's result of one epoch.
type epochRead struct {
	traffic
	took         time.Duration
	twice, never int
}

// read reads an epoch, and checks that all ranks together receive each sample once. Rank r reads
// from gateway r, or from the next running gateway.
func (f *fleet) read(ctx context.Context, t task) (epochRead, error) {
	before, c := f.traffic(), newCensus(f.data.chunks, f.data.each)
	begun := time.Now()
	ranks, ctx := errgroup.WithContext(ctx)
	for r := range t.ranks {
		ranks.Go(func() error { return f.rank(ctx, t, r, c) })
	}
	err := ranks.Wait()
	return epochRead{traffic: f.traffic().minus(before), took: time.Since(begun), twice: c.twice(), never: c.never()}, err
}

// rank reads one rank's share of each global batch.
func (f *fleet) rank(ctx context.Context, t task, rank int, c *census) error {
	m := f.members[rank%len(f.members)]
	for i := rank; m.gone; i++ {
		m = f.members[i%len(f.members)]
	}
	plan, epoch, err := m.at(t.params, t.epoch)
	if err != nil {
		return err
	}
	b := shuffle.Batching{Samples: plan.Samples(), BatchSize: batchSize, Tail: shuffle.Short}
	arrived := make(chan int, readAhead)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(arrived)
		for n := range b.Batches() {
			at := shuffle.Cursor{
				Plan: plan, Epoch: epoch, First: n * batchSize, End: min((n+1)*batchSize, plan.Samples()), BatchSize: batchSize,
				Rank: uint64(rank), WorldSize: uint64(t.ranks), Sharing: t.sharing, Tail: b.Tail,
			}
			got, err := m.share(ctx, at, b.Share(n, 0, 1), b.Share(n, uint64(rank), uint64(t.ranks)), c)
			if err != nil {
				return fmt.Errorf("rank %d, batch %d: %w", rank, n, err)
			}
			select {
			case arrived <- got:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	free := time.Now() // when the rank has consumed the samples so far
	for got := range arrived {
		if t.rate > 0 {
			if now := time.Now(); now.After(free) {
				free = now
			}
			free = free.Add(time.Duration(float64(got*sampleBytes) / t.rate * float64(time.Second)))
			time.Sleep(time.Until(free))
		}
	}
	return g.Wait()
}

// readAhead is the number of batches that a rank holds while it trains on another one.
const readAhead = 2

// share reads one rank's part of one global batch, and returns its number of samples.
func (m *member) share(ctx context.Context, at shuffle.Cursor, all, own shuffle.Share, c *census) (int, error) {
	var samples []uint64
	if at.Sharing == shuffle.Locality {
		whole := at.Epoch.AppendShare(nil, all)
		for _, place := range at.Epoch.DealHomes(all, at.Rank, at.WorldSize, at.WorldSize) {
			samples = append(samples, whole[place])
		}
	} else {
		samples = at.Epoch.AppendShare(nil, own)
	}
	chunks, err := m.data.ranges(ctx, m.index, samples)
	if err != nil {
		return 0, err
	}
	body, err := m.source.Read(ctx, at, chunks)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	got := make([]uint64, len(body.Segments))
	for i, s := range body.Segments {
		if got[i] = numberOf(s); got[i] != samples[i] {
			return 0, fmt.Errorf("place %d: got sample %d, want %d", i, got[i], samples[i])
		}
	}
	c.note(got)
	return len(got), nil
}

// link is a listener whose connections share one sending rate, like a gateway's network card.
type link struct {
	net.Listener
	limit *limiter.Limiter
}

// linkPiece is the size of a single write on a link.
const linkPiece = 32 << 10

func newLink(ln net.Listener, bytesPerSecond float64) net.Listener {
	if bytesPerSecond == 0 {
		return ln
	}
	return &link{ln, limiter.NewLimiter(limiter.Limit(bytesPerSecond), linkPiece)}
}

// Accept waits for a connection.
func (l *link) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &linkConn{conn, l.limit}, nil
}

type linkConn struct {
	net.Conn
	limit *limiter.Limiter
}

// Write writes at the link's rate.
func (c *linkConn) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		piece := p[:min(len(p), linkPiece)]
		if err = c.limit.WaitN(context.Background(), len(piece)); err != nil {
			return n, err
		}
		var k int
		k, err = c.Conn.Write(piece)
		n, p = n+k, p[k:]
	}
	return n, err
}
