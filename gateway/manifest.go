package gateway

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/millrace-data/millrace/shuffle"
)

// manifestSample says where one sample of a batch lies.
type manifestSample struct {
	Position uint64 `json:"position"`
	Key      string `json:"key"`
	Shard    string `json:"shard"`
	Offset   int64  `json:"offset"`
	Length   uint32 `json:"length"`
	CRC32C   string `json:"crc32c"`
}

func (g *Gateway) getManifest(x *exchange) error {
	b, err := g.decodeBatch(x)
	if err != nil {
		return err
	}
	return g.answerShare(x, b, batchManifest, b.etag(batchManifest), func(share shuffle.Share, _ shuffle.Cursor, l *located) error {
		return g.sendManifest(x, manifest{batchRequest: b, located: l, first: share.First})
	})
}

// manifest is encoded sample by sample, twice: to learn its length, which keys of any length decide, and to send
// it. So it never lies in memory as a whole.
type manifest struct {
	batchRequest
	*located
	first uint64
}

func (g *Gateway) sendManifest(x *exchange, m manifest) error {
	length := int64(0)
	err := m.encode(x.r.Context(), func(p []byte) { length += int64(len(p)) })
	if err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method == http.MethodHead {
		return nil
	}
	out := bufio.NewWriterSize(x.w, unreserved) // keeps the first error
	if err := m.encode(context.WithoutCancel(x.r.Context()), func(p []byte) { _, _ = out.Write(p) }); err != nil {
		return err
	}
	if out.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// encode hands the manifest over piece by piece.
func (m manifest) encode(ctx context.Context, write func(p []byte)) error {
	index := m.dataset.Index
	write([]byte(`{"samples":[`))
	for i, s := range m.samples {
		key, err := index.Key(ctx, s.sample)
		if err != nil {
			return fmt.Errorf("key of sample %d: %w", s.sample, err)
		}
		extent := index.Extents(int(s.chunk))[0]
		line, err := encodeJSON(manifestSample{
			Position: m.first + uint64(i), Key: key, Shard: index.Shard(extent.Shard).Key,
			Offset: extent.Offset + int64(s.offset), Length: s.length, CRC32C: fmt.Sprintf("%08x", s.crc),
		})
		if err != nil {
			return err
		}
		if i > 0 {
			write([]byte{','})
		}
		write(line[:len(line)-1])
	}
	write([]byte("]}\n"))
	return nil
}
