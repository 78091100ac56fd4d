package node

import (
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/shared"
)

// openShared makes the pool of shared memory for readers at a Unix socket. It returns nil if there
// is no socket, or if the system does not support shared memory.
func (s *Node) openShared() *shared.Pool {
	if s.cfg.NoSharedMemory || !hasSocket(s.cfg.Listen) {
		return nil
	}
	pool, err := shared.New(s.main().budget)
	if err != nil {
		s.log.Info().Str("cause", err.Error()).Msg("no shared memory; readers on this machine receive bytes")
		return nil
	}
	s.shared = pool
	s.closers = append(s.closers, pool.Close)
	return pool
}

// sharedStats returns the metrics of shared memory.
func (s *Node) sharedStats() []gateway.Stat {
	if s.shared == nil {
		return nil
	}
	t := s.shared.Stats()
	return []gateway.Stat{
		{Name: "shared_bytes", Help: "Shared memory for readers on this machine.", Value: float64(t.Bytes)},
		{Name: "shared_leased_bytes", Help: "Shared memory that readers hold.", Value: float64(t.Lent)},
		{Name: "shared_segments", Help: "Open descriptors of shared memory.", Value: float64(t.Segments)},
		{Name: "shared_batches_total", Help: "Batches delivered through shared memory.", Value: float64(t.Leases)},
		{Name: "shared_refused_total", Help: "Batches sent as bytes because shared memory was full.", Value: float64(t.Refused)},
	}
}
