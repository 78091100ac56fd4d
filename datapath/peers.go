package datapath

import (
	"context"

	"github.com/millrace-data/millrace/cluster/peer"
)

// Peers are the other gateways of a cluster. They are asked for what is neither in memory nor on disk here,
// before the store. Whatever they say changes speed and who is asked, never bytes. All but Read are called for many chunks and
// under locks of the path: they must be quick, wait for nothing and not call the path.
type Peers interface {
	// Owner returns the member that is to hold a chunk, the next choice where some have been asked
	// already; "" for this gateway, and where nobody else should be asked now.
	Owner(c peer.Chunk, asked ...string) (member string)
	// Former returns a member that may hold a chunk that has come to this gateway lately, "" if
	// none is known.
	Former(c peer.Chunk) (member string)
	// Share returns which part of a generation's chunks this gateway is to hold, above 0, at most
	// 1.
	Share(generation string) float64
	// View changes when Owner or Share may answer otherwise than before.
	View() uint64
	// Read asks one member, once, and fills dst: one slice for each range of the query, in order.
	// Nothing of it is checked. instead, unless nil, brings the same from elsewhere: beside the
	// member where that is late, so that dst is not to be written, or after it has failed. Read
	// returns when both have ended. peer.ErrOutdone says that instead has brought the bytes;
	// another error, that nobody has: the store is to be asked.
	Read(ctx context.Context, member string, q *peer.Query, dst [][]byte, instead Instead) error
	// Lied says that what a member sent was not what the index says.
	Lied(member string)
}

// Instead brings from elsewhere what a member was asked for. It returns nil where it could bring
// what the member has not: all of it beside the member, something of it after the member.
type Instead = func(ctx context.Context, beside bool) error
