package datapath

import (
	"context"

	"github.com/millrace-data/millrace/peer"
)

// Peers is the tier between disk and store: the memory of the other gateways of a cluster. Whatever it says changes
// speed and who is asked, never bytes. All but Read are called for many chunks and under locks of the path: they must be
// quick, wait for nothing and not call the path.
type Peers interface {
	// Owner returns the member that is to hold a chunk; "" for this gateway, and where nobody else should be asked now.
	Owner(c peer.Chunk) (member string)
	// Former returns a member that may hold a chunk that has come to this gateway lately, "" if none is known.
	Former(c peer.Chunk) (member string)
	// Share returns which part of a generation's chunks this gateway is to hold, above 0, at most 1.
	Share(generation string) float64
	// View changes when Owner or Share may answer otherwise than before.
	View() uint64
	// Read asks one member, once, and fills dst: one slice for each range of the query, in order. Nothing of it is
	// checked. An error says that the member did not answer in time, or not at all: the store is to be asked.
	Read(ctx context.Context, member string, q *peer.Query, dst [][]byte) error
	// Lied says that what a member sent was not what the index says.
	Lied(member string)
}
