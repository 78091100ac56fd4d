package s3backend

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"

	"github.com/millrace-data/millrace/internal/objstore"
)

// What may come at once under a limit of bandwidth: the bytes of a twentieth of a second, and no more than a large read of a socket.
const (
	leastBurst   = 16 << 10
	mostBurst    = 1 << 20
	burstsSecond = 20
)

// newBandwidthLimit returns a rate limit in bytes per second; nil: unlimited.
func newBandwidthLimit(bandwidth int64) *rate.Limiter {
	if bandwidth == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bandwidth), int(min(max(bandwidth/burstsSecond, leastBurst), mostBurst)))
}

// throttledReader is a response body that waits for its share of the bandwidth of all reads. It wraps the
// watchedBody, so that the wait never counts as slowness of the store.
type throttledReader struct {
	ctx   context.Context //nolint:containedctx // of the transfer
	body  io.Reader
	limit *rate.Limiter
}

// throttle limits a body to its share of the bandwidth, if that is limited.
func (b *Backend) throttle(ctx context.Context, body io.Reader) io.Reader {
	if b.bandwidth == nil {
		return body
	}
	return throttledReader{ctx, body, b.bandwidth}
}

func (r throttledReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p[:min(len(p), r.limit.Burst())])
	// What has come is paid for afterwards, also by an attempt that fails with it: it has used the line.
	wait := r.limit.ReserveN(time.Now(), n).Delay()
	if err == nil || errors.Is(err, io.EOF) {
		if ended := objstore.Sleep(r.ctx, wait); ended != nil {
			err = ended
		}
	}
	return n, err
}

// Paced reports whether reads are held back for the sake of a limit.
func (b *Backend) Paced() bool { return b.bandwidth != nil }
