package peer

import (
	"encoding/binary"
	"io"
	"net/http"
)

// What a question takes while it is answered, beside the bytes of the answer: its own bytes, and
// for each range and chunk what stands for it in the lists of query, batch, segments and samples.
const (
	rangeCost = 128
	chunkCost = 256
	jsonTimes = 4 // by which a value of JSON is larger than its text

	// besideBudget is what all questions together may take without asking ServerConfig.Reserve:
	// they are small, and a budget that a cache has filled must not refuse each of them.
	besideBudget = 8 << 20
)

// bill is what one request has taken.
type bill struct {
	server   *Server
	releases []func()
}

// add takes n bytes more, or refuses: nobody waits for memory while another gateway waits for him.
func (b *bill) add(n int64) error {
	s := b.server
	if s.beside.TryAcquire(n) {
		b.releases = append(b.releases, func() { s.beside.Release(n) })
		return nil
	}
	if s.cfg.Reserve != nil {
		release, ok := s.cfg.Reserve(n)
		if !ok {
			return refuse(CodeOverloaded, "no memory for a question that takes %d bytes", n)
		}
		b.releases = append(b.releases, release)
	}
	return nil
}

// body reads a request's body, which takes so many times its length.
func (b *bill) body(r *http.Request, limit, times int64) ([]byte, error) {
	if err := checkLength(r, limit); err != nil {
		return nil, err
	}
	if err := b.add(times * r.ContentLength); err != nil {
		// Passed over, not kept: an asker that is cut off while it sends takes this gateway for
		// dead.
		if _, broken := io.Copy(io.Discard, io.LimitReader(r.Body, limit)); broken != nil {
			return nil, refuse(CodeInvalid, "the body broke off")
		}
		return nil, err
	}
	return bodyOf(r)
}

func (b *bill) close() {
	for _, release := range b.releases {
		release()
	}
}

// costOf returns what a question takes beside its text. It reads no further than how many chunks
// and ranges are promised, and believes no more of that than the text has room for.
func costOf(text []byte) int64 {
	if len(text) <= len(queryMagic) {
		return 0
	}
	in := &cursor{rest: text[len(queryMagic)+1:]}
	in.name()
	in.name()
	if flags := text[len(queryMagic)]; flags&flagReader != 0 {
		in.reader()
		if flags&flagSubset != 0 {
			in.name()
		}
	}
	chunks, _ := binary.Uvarint(in.rest)
	in.number(chunks)
	ranges, _ := binary.Uvarint(in.rest)
	most := uint64(len(in.rest))
	return int64(min(chunks, most/minChunk)*chunkCost + min(ranges, most/minRange)*rangeCost) //nolint:gosec // bounded by the text
}
