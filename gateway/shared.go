package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/internal/shared"
	"github.com/millrace-data/millrace/internal/socket"
)

// leastShared is the minimum total length of samples that are sent as shared memory. For fewer
// samples, sending bytes is as cheap.
const leastShared = 64 << 10

// letGo ends the leases that a request lists: the reader no longer uses their memory.
func (g *Gateway) letGo(x *exchange) {
	values := x.r.Header.Values("Millrace-Release")
	if len(values) == 0 || g.cfg.Shared == nil {
		return
	}
	local := socket.LocalOf(x.r.Context())
	if local == nil {
		return
	}
	var leases []uint64
	for text := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil {
			leases = append(leases, n)
		}
	}
	g.lender(local).Release(leases)
}

// lender returns the lender for the process at the other end of a connection.
func (g *Gateway) lender(local *socket.Local) *shared.Lender {
	return local.Holds(func() io.Closer { return g.cfg.Shared.Lender() }).(*shared.Lender)
}

// lend sends a whole body: the table of the framed form as bytes and the rest as memory that the
// reader maps. If it returns false, it has sent nothing, and the caller must send the bytes.
func (g *Gateway) lend(x *exchange, d *dataset, answer body.Answer, held *loadedPart) bool {
	local := socket.LocalOf(x.r.Context())
	if g.cfg.Shared == nil || local == nil || !answer.Shares() || !address.Names(x.accept(), body.SharedType) {
		return false
	}
	table, samples := held.part.Divide()
	if samples.Size() < leastShared {
		return false
	}
	release, ok := x.account.Lend(samples.Size())
	if !ok {
		return false
	}
	lease, ok := g.lender(local).Lend(samples.Size(), shared.Purpose{
		Principal: x.principal.Name, Dataset: d.Name() + " " + d.Index.Generation(), Rules: g.access.Version(),
	}, release)
	if !ok {
		release()
		return false
	}
	sent := false
	defer func() { lease.Sent(sent) }()
	x.log.Enter(timing.Send)
	shared.Gather(lease.Bytes, samples.Fill(held.read.Segments))
	held.read.Close()
	h := x.w.Header()
	h.Set("Content-Type", body.SharedType)
	h.Set("Content-Length", strconv.Itoa(len(table)))
	h.Set("Millrace-Shared", describeLease(lease, samples.Size()))
	h.Set("Server-Timing", x.log.ServerTiming())
	local.Pass(lease.Descriptor)
	x.w.WriteHeader(http.StatusOK)
	x.w.MustWrite(table)
	if x.w.FlushError() != nil { // the descriptor must be sent before it is closed here
		panic(http.ErrAbortHandler)
	}
	x.w.Bytes += samples.Size()
	sent = true
	return true
}

// describeLease returns the header that describes the memory of the samples.
func describeLease(l shared.Lease, length int64) string {
	text := fmt.Sprintf("lease=%d, segment=%d, size=%d, length=%d", l.Number, l.Segment, len(l.Bytes), length)
	if l.Descriptor >= 0 {
		text += ", descriptor"
	}
	if len(l.Gone) > 0 {
		text += ", gone=(" + strings.Trim(fmt.Sprint(l.Gone), "[]") + ")"
	}
	return text
}
