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

// newPace returns a limit of bytes per second, nil for none.
func newPace(bandwidth int64) *rate.Limiter {
	if bandwidth == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bandwidth), int(min(max(bandwidth/burstsSecond, leastBurst), mostBurst)))
}

// paced is the body of an answer that waits for its share of the bandwidth of all reads. It stands around what watches the store,
// so that the wait counts as time that the reader takes, and never as slowness of the store.
type paced struct {
	ctx   context.Context //nolint:containedctx // of the transfer
	body  io.Reader
	limit *rate.Limiter
}

// pace has a body wait for its share of the bandwidth, if that is limited.
func (b *Backend) pace(ctx context.Context, body io.Reader) io.Reader {
	if b.limit == nil {
		return body
	}
	return paced{ctx, body, b.limit}
}

func (r paced) Read(p []byte) (int, error) {
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
func (b *Backend) Paced() bool { return b.limit != nil }
