package s3backend

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Bounds of the burst of a bandwidth limit. The burst is the number of bytes in a twentieth of a
// second, but at most one large read of a socket.
const (
	leastBurst   = 16 << 10
	mostBurst    = 1 << 20
	burstsSecond = 20
)

// newBandwidthLimit returns a rate limit in bytes per second. It returns nil, which means
// unlimited, for 0.
func newBandwidthLimit(bandwidth int64) *rate.Limiter {
	if bandwidth == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bandwidth), int(min(max(bandwidth/burstsSecond, leastBurst), mostBurst)))
}

// throttledReader is a response body that waits for its share of the bandwidth of all reads. It
// wraps the watchedBody, so its waits do not count as slowness of the store.
type throttledReader struct {
	ctx   context.Context //nolint:containedctx // of the transfer
	body  io.Reader
	limit *rate.Limiter
}

// throttle limits a body to its share of the bandwidth, if the bandwidth is limited.
func (b *Backend) throttle(ctx context.Context, body io.Reader) io.Reader {
	if b.bandwidth == nil {
		return body
	}
	return throttledReader{ctx, body, b.bandwidth}
}

func (r throttledReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p[:min(len(p), r.limit.Burst())])
	// Received bytes are counted after the read, even if the attempt fails, since they have
	// used bandwidth.
	wait := r.limit.ReserveN(time.Now(), n).Delay()
	if err == nil || errors.Is(err, io.EOF) {
		if ended := objstore.Sleep(r.ctx, wait); ended != nil {
			err = ended
		}
	}
	return n, err
}

// Paced reports whether reads are delayed by a bandwidth limit.
func (b *Backend) Paced() bool { return b.bandwidth != nil }
