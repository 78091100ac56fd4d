package node

import "github.com/millrace-data/millrace/gateway/stats"

// readers lists the readers of all data paths, with dataset names.
func (s *Node) readers() []stats.Reader {
	known := s.main().path.Readers()
	for _, v := range s.divisions[1:] {
		known = append(known, v.path.Readers()...)
	}
	names := s.keeper.names()
	out := make([]stats.Reader, len(known))
	for i, r := range known {
		out[i] = stats.Reader{
			Job:  stats.Job{Dataset: names[r.Dataset], Params: r.Params, BatchSize: r.BatchSize, WorldSize: r.WorldSize},
			Rank: r.Rank, Epoch: r.Epoch, Batch: r.Batch,
			BatchesBehind: r.Behind, SamplesPerSecond: r.Rate, ThinkMS: float64(r.Think.Microseconds()) / 1000,
			WaitingShare: r.Waits, Spent: stats.RankTimes(r.Spent), EpochLeftSeconds: r.Left.Seconds(), IdleSeconds: r.Idle.Seconds(),
		}
	}
	return out
}
