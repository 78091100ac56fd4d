package orders

import (
	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// Takeover counts repeated store reads if a number of gateways replaces one gateway per home while
// the job's homes stay the same. The gateways share nothing, and have room for the data of their
// ranks.
type Takeover struct {
	WorldSize uint64  `json:"world_size"`
	Homes     uint64  `json:"homes"`
	Gateways  int     `json:"gateways"`
	Chunks    int     `json:"chunks"` // a chunk that two gateways read counts twice
	Bytes     int64   `json:"bytes"`  // size of these chunks in the store
	Share     float64 `json:"share"`  // share of the dataset's bytes
}

// takeovers returns the repeated reads of each number of gateways, for each possible sharing.
func (q Question) takeovers(plan *shuffle.Plan, x *chunkindex.Index, shares []Sharing) []Takeover {
	var rows []Takeover
	data := Model(x)
	for _, s := range shares {
		for _, n := range q.Gateways {
			if s.Fault != "" || uint64(n) > s.WorldSize {
				continue // a gateway without a rank reads nothing
			}
			t := data.TakeOver(plan, s.WorldSize, s.Homes, int(s.Homes), n)
			rows = append(rows, Takeover{
				WorldSize: s.WorldSize, Homes: s.Homes, Gateways: n, Chunks: t.Chunks, Bytes: t.Bytes, Share: float64(t.Bytes) / float64(max(data.Stored(), 1)),
			})
		}
	}
	return rows
}
