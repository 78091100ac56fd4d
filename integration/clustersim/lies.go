package clustersim

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// lies holds the current faults in a machine's responses.
type lies struct {
	mu      sync.Mutex    // guards the fields below
	wrong   *rand.Rand    // responses have wrong bytes; nil: no
	mangled *rand.Rand    // responses are altered in transit; nil: no
	refuse  bool          // it reports that a chunk does not exist
	full    bool          // it reports that it has no memory for the response
	late    time.Duration // additional delay of all data that it sends to other gateways
}

func (l *lies) set(change func(*lies)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// lateness returns the additional delay of a machine's responses.
func (l *lies) lateness() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late
}

// draw returns a random number below n, or -1 if the fault is not active.
func (l *lies) draw(which func(*lies) *rand.Rand, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rnd := which(l); rnd != nil {
		return rnd.IntN(n)
	}
	return -1
}

// holder is a peer.Holder that sends wrong responses while the faults of lies are active.
type holder struct {
	peer.Holder
	lies     *lies
	data     *Data
	old      *Data
	seen     func(ctx context.Context, q *peer.Query)
	answered func(ctx context.Context, q *peer.Query, err error)
}

// Answer implements peer.Holder.
func (h *holder) Answer(ctx context.Context, q *peer.Query) (segments [][]byte, release func(), err error) {
	h.seen(ctx, q)
	h.lies.mu.Lock()
	refuse, full := h.lies.refuse, h.lies.full
	h.lies.mu.Unlock()
	switch {
	case refuse:
		return nil, nil, peer.ErrNotHere
	case full:
		return nil, nil, peer.ErrNoRoom
	}
	segments, release, err = h.Holder.Answer(ctx, q)
	h.answered(ctx, q, err)
	kind := h.lies.draw(func(l *lies) *rand.Rand { return l.wrong }, 5)
	if err != nil || kind < 0 || len(segments) == 0 {
		return segments, release, err
	}
	return h.twist(segments, h.falsify(q, kind), kind), release, nil
}

// falsify returns wrong bytes for the requested ranges: those of other chunks (kind 0) or of an
// earlier generation (kind 1).
func (h *holder) falsify(q *peer.Query, kind int) [][]byte {
	var out [][]byte
	for _, c := range q.Chunks {
		from := h.data.bytes((c.Chunk + 1) % h.data.Index.Chunks())
		if kind == 1 {
			from = h.old.bytes(min(c.Chunk, h.old.Index.Chunks()-1))
		}
		for _, r := range c.Ranges {
			b := make([]byte, r.Length)
			copy(b, from[min(int(r.Offset), len(from)):])
			out = append(out, b)
		}
	}
	return out
}

// twist returns the bytes to send instead of the correct segments.
func (h *holder) twist(right, other [][]byte, kind int) [][]byte {
	bit := h.lies.draw(func(l *lies) *rand.Rand { return l.wrong }, 1<<20)
	out := slices.Clone(right)
	switch kind {
	case 0, 1:
		if len(other) == len(right) {
			return other
		}
	case 2: // one bit flipped
		at := max(bit, 0) % len(out)
		b := slices.Clone(out[at])
		if len(b) > 0 {
			b[bit/8%len(b)] ^= 1 << (bit % 8)
		}
		out[at] = b
	case 3: // segments of equal length in another order
		for i := 1; i < len(out); i++ {
			if len(out[i]) == len(out[i-1]) {
				out[i], out[i-1] = out[i-1], out[i]
			}
		}
	case 4: // zeros
		for i := range out {
			out[i] = make([]byte, len(out[i]))
		}
	}
	return out
}

// mangle alters a response in transit.
func (l *lies) mangle(resp *http.Response) {
	body := resp.Body
	become := func(code int, text string) {
		resp.StatusCode, resp.Status = code, strconv.Itoa(code)+" "+http.StatusText(code)
		resp.ContentLength = int64(len(text))
		resp.Header = http.Header{"Content-Length": {strconv.Itoa(len(text))}, "Content-Type": {"text/html"}}
		resp.Body = wrapped{strings.NewReader(text), body}
	}
	switch l.draw(func(l *lies) *rand.Rand { return l.mangled }, 8) {
	case 0: // short, with the matching Content-Length
		if resp.ContentLength > 0 {
			resp.ContentLength--
			resp.Header.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
			resp.Body = wrapped{io.LimitReader(body, resp.ContentLength), body}
		}
	case 1: // short, with the original Content-Length
		if resp.ContentLength > 0 {
			resp.Body = wrapped{io.MultiReader(io.LimitReader(body, resp.ContentLength/2), broken{}), body}
		}
	case 2: // long, with the matching Content-Length
		if resp.ContentLength >= 0 {
			resp.ContentLength += 7
			resp.Header.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
		}
		resp.Body = wrapped{io.MultiReader(body, strings.NewReader("surplus")), body}
	case 3: // long, of unknown length
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
		resp.Body = wrapped{io.MultiReader(body, bytes.NewReader(make([]byte, 1<<20))), body}
	case 4:
		become(http.StatusOK, "")
	case 5:
		become(http.StatusInternalServerError, "<html>it is not you, it is us</html>")
	case 6:
		become(http.StatusFound, "moved")
		resp.Header.Set("Location", "http://elsewhere.example/")
	}
}

type wrapped struct {
	io.Reader
	io.Closer
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
