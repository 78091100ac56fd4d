package node

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/cluster"
	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/shuffle"
)

// Limits for messages of other gateways. If the queue is full, reported readers are dropped, since
// they only serve read-ahead.
const (
	mostHeard    = 256
	peerDrain    = 3 * time.Second // time for the peer port's running answers when the data port is closed
	planningTime = 5 * time.Second // time for computing the plan of a reported reader
	mostFollowed = 1 << 20         // maximum samples of a batch that is shared by locality
)

// peers is a gateway's part in a cluster:
//
//	peer port ──> peer.Server ──> datapath.Path of the dataset (Answer)      reported readers ──> gateway.Plan ──> Path.Heard
//	                                                                         cluster.Cluster (chunks of a leaving member) ──> Path.Pull
//	datapath.Path ──> cluster.Cluster (owner of a chunk) ──> peer.Client ──> other gateways
type peers struct {
	node    *Node
	cluster *cluster.Cluster
	client  *peer.Client
	server  *peer.Server
	heard   chan remoteReader
}

// remoteReader is a reader that another gateway has reported.
type remoteReader struct {
	dataset, generation string
	reader              peer.Reader
}

// joinCluster makes the cluster's parts. It starts nothing.
func (s *Node) joinCluster() error {
	c := &s.cfg.ClusterConfig
	if c.Cluster == "" {
		return nil
	}
	p := &peers{node: s, heard: make(chan remoteReader, mostHeard)}
	boot := rand.Text()
	var client, served *tls.Config
	if !c.PeerInsecure {
		files, err := certs.NewPeer(certs.Config{Cert: c.PeerCert, Key: c.PeerKey, CA: c.PeerCA, Changed: s.certificateChanged("peer")}, c.PeerAllow)
		if err != nil {
			return settingError("peer-cert", err)
		}
		if err := peer.Certify(files.Leaf(), c.Member); err != nil && !c.PeerSharedCert {
			return settingError("peer-cert", fmt.Errorf("%s: %w", c.PeerCert, err))
		}
		if len(c.PeerAllow) == 0 && slices.ContainsFunc(s.certificates, func(port certificate) bool { return files.BelievesClientsOf(port.Files) }) {
			return settingError("peer-allow", errors.New("required, because peer-ca and client-ca hold the same authority, so that every client could act as a gateway: name the gateways, or sign their certificates with another authority"))
		}
		client, served = files.Client(), files.Server()
		s.certificates = append(s.certificates, certificate{"peer", c.PeerCert, files.Files})
	}
	p.client = peer.NewClient(peer.ClientConfig{Cluster: c.Cluster, ID: c.Member, TLS: client, SharedCert: c.PeerSharedCert})
	p.cluster = cluster.New(cluster.Config{
		Name: c.Cluster, ID: c.Member, Boot: boot,
		Weight: uint64(s.cfg.memoryOfAll()), Discovery: discovery.New(c.Join, s.log), Client: p.client, Inherit: p.inherit, Log: s.log,
	})
	p.server = peer.NewServer(peer.ServerConfig{
		Cluster: c.Cluster, Met: p.cluster.Met, Holder: p, Heard: p.hear, Answered: p.cluster.Answered,
		Reserve: func(n int64) (func(), bool) { return s.main().path.TryReserve(n) },
		TLS:     served, SharedCert: c.PeerSharedCert, Log: s.log, Trace: s.trace, DrainTime: peerDrain,
	})
	s.peers = p
	s.closers = append(s.closers, p.client.Close)
	return nil
}

// Answer passes a query to the data path of its dataset.
func (p *peers) Answer(ctx context.Context, q *peer.Query) (segments [][]byte, release func(), err error) {
	return p.node.division(q.Dataset).path.Answer(ctx, q)
}

// hear queues a reported reader for run, or drops it if the queue is full.
func (p *peers) hear(dataset, generation string, r peer.Reader) {
	select {
	case p.heard <- remoteReader{dataset, generation, r}:
	default:
	}
}

// run runs all parts of the cluster except the peer port until ctx ends.
func (p *peers) run(ctx context.Context, g *gateway.Gateway) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return p.cluster.Run(ctx) })
	all.Go(func() error {
		for {
			select {
			case h := <-p.heard:
				p.follow(ctx, g, h)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return all.Wait()
}

// follow makes the data path read ahead for a reader of another gateway.
func (p *peers) follow(ctx context.Context, g *gateway.Gateway, h remoteReader) {
	ctx, cancel := context.WithTimeout(ctx, planningTime)
	defer cancel()
	r := h.reader
	plan, epoch, leave, err := g.Plan(ctx, h.dataset, h.generation, r.Params, r.Epoch)
	if err != nil {
		p.node.log.Debug().Err(err).Msg("no read-ahead for a reader of another gateway")
		return
	}
	defer leave()
	if r.Homes == 0 {
		r.Homes = r.WorldSize
	}
	if r.Sharing == shuffle.Locality && (r.BatchSize > mostFollowed || plan.CheckSharing(r.WorldSize, r.Homes) != nil) {
		return // every gateway rejects such a request
	}
	at := r.Cursor
	at.Plan, at.Epoch = plan, epoch
	p.node.division(h.dataset).path.Heard(h.dataset, h.generation, at, r.Think)
}

// inherit loads the chunks of a draining member that this gateway owns from now on.
func (p *peers) inherit(ctx context.Context, member string, held []peer.ChunkList) {
	for _, h := range held {
		p.node.division(h.Dataset).path.Pull(ctx, member, h)
	}
}

// goodbye announces that this gateway is draining, together with its chunks, so that their new
// owners can load them.
func (p *peers) goodbye() {
	var held []peer.Chunk
	for _, path := range p.node.paths() {
		held = append(held, path.Held()...)
	}
	p.cluster.Drain(held)
}

// listenPeers binds the peer port.
func (s *Node) listenPeers(ctx context.Context) (net.Listener, error) {
	if s.peers == nil {
		return nil, nil
	}
	ln := s.cfg.PeerBound
	if ln == nil {
		var err error
		if ln, err = Listen(ctx, s.cfg.PeerListen, 0); err != nil {
			return nil, err
		}
	}
	c := &s.cfg.ClusterConfig
	s.log.Info().Stringer("listen", ln.Addr()).Str("cluster", c.Cluster).Str("member", c.Member).
		Stringer("join", c.Join).Msg("peer port")
	if c.PeerInsecure {
		s.log.Warn().Msg("--peer-insecure: every machine that can reach the peer port can read every dataset")
	}
	return ln, nil
}

// ClusterPage is the response of /v1/cluster.
type ClusterPage struct {
	cluster.Status
	Tiers TierBytes `json:"tiers"`
}

// TierBytes counts bytes by their source, since this gateway started.
type TierBytes struct {
	Store  uint64 `json:"store_bytes"`
	Peers  uint64 `json:"peer_bytes"`
	Disk   uint64 `json:"disk_bytes"`
	Served uint64 `json:"served_to_peers_bytes"`
	Memory int64  `json:"memory_bytes"` // chunks in memory now
}

func (s *Node) clusterPage() any {
	page := ClusterPage{Status: s.peers.cluster.Status()}
	for _, v := range s.divisions {
		t := v.path.Stats()
		page.Tiers.Store += t.StoreBytes
		page.Tiers.Peers += t.PeerBytes
		page.Tiers.Disk += uint64(t.Disk.HitBytes)
		page.Tiers.Served += t.PeerServedBytes
		page.Tiers.Memory += t.CachedBytes
	}
	return page
}

// peerStats names the counters of the peer tier.
func peerStats(t datapath.Stats) []gateway.Stat {
	return []gateway.Stat{
		{Name: "peer_reads_total", Help: "Requests to other gateways.", Value: float64(t.PeerReads)},
		{Name: "peer_read_bytes_total", Help: "Bytes received from other gateways.", Value: float64(t.PeerBytes)},
		{Name: "peer_failed_total", Help: "Requests to other gateways that got no answer in time; another gateway or the store was asked instead.", Value: float64(t.PeerFailed)},
		{Name: "peer_corrupt_total", Help: "Answers of other gateways that did not match the index; above 0, check the memory of the member that the log names.", Value: float64(t.PeerLies)},
		{Name: "peer_served_reads_total", Help: "Answers to other gateways.", Value: float64(t.PeerServedReads)},
		{Name: "peer_served_bytes_total", Help: "Bytes sent to other gateways.", Value: float64(t.PeerServedBytes)},
		{Name: "peer_prefetched_samples_total", Help: "Samples served from prefetches of other gateways.", Value: float64(t.CarriedHits)},
		{Name: "peer_prefetched_bytes_total", Help: "Bytes of samples served from prefetches of other gateways.", Value: float64(t.CarriedBytes)},
		{Name: "peer_handover_chunks_total", Help: "Chunks received from their previous owner instead of the store.", Value: float64(t.FormerChunks)},
	}
}

// memberStats counts the members by state.
func memberStats(st cluster.Status) []gateway.Stat {
	n := map[cluster.State]float64{}
	for _, m := range st.Members {
		n[m.State]++
	}
	for _, o := range st.Others {
		n[o.State]++
	}
	share := 0.0
	for _, o := range st.Self.Serves {
		share += o.Share / float64(len(st.Self.Serves))
	}
	return []gateway.Stat{
		{Name: "cluster_members", Help: "Other gateways of the cluster that answer.", Value: n[cluster.Alive] + n[cluster.Suspect] + n[cluster.Draining] + n[cluster.Ejected]},
		{Name: "cluster_members_ejected", Help: "Other gateways that are temporarily not asked because they failed.", Value: n[cluster.Ejected]},
		{Name: "cluster_members_draining", Help: "Other gateways that are shutting down.", Value: n[cluster.Draining]},
		{Name: "cluster_members_gone", Help: "Gateways that were members in the last minutes and do not answer.", Value: n[cluster.Gone]},
		{Name: "cluster_refused", Help: "Addresses where a process answers that cannot be a member; above 0, see /v1/cluster.", Value: n[cluster.Refused]},
		{Name: "peer_hedges_total", Help: "Requests sent to a second gateway because the first was late.", Value: float64(st.Hedges)},
		{Name: "cluster_owned_share", Help: "Share of the chunks that this gateway owns, averaged over datasets.", Value: share},
	}
}
