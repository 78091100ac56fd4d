package gateway

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// manifestSample says where one sample of a batch lies.
type manifestSample struct {
	Position uint64 `json:"position"`
	Key      string `json:"key"`
	KeyBytes []byte `json:"key_base64,omitempty"` // where the key is no text that JSON can carry
	Source   string `json:"source,omitempty"`     // of a mixture: the dataset that the shard is of
	Shard    string `json:"shard"`
	Offset   int64  `json:"offset"`
	Length   uint32 `json:"length"`
	CRC32C   string `json:"crc32c"`
}

// bytesOfKey returns a key that JSON would change: two such keys must not look like one.
func bytesOfKey(key string) []byte {
	if utf8.ValidString(key) {
		return nil
	}
	return []byte(key)
}

func (g *Gateway) getManifest(x *exchange) error {
	b, err := g.decodeBatch(x)
	if err != nil {
		return err
	}
	return g.answerShare(x, b, batchManifest, b.describingETag(batchManifest), func(_ shuffle.Cursor, l *located) error {
		return g.sendManifest(x, manifest{batchRequest: b, located: l})
	})
}

// keysAtOnce is for how many samples keys are held at a time: 4 MiB where all are as long as a key may be.
const keysAtOnce = 1024

// manifest is encoded piece by piece, so that it never lies in memory as a whole: if it is long twice, to learn its
// length, which keys of any length decide, and to send it.
type manifest struct {
	batchRequest
	*located
}

func (g *Gateway) sendManifest(x *exchange, m manifest) error {
	length, short := 0, make([]byte, 0, unreserved)
	err := m.encode(x.r.Context(), func(p []byte) {
		if length += len(p); length <= cap(short) {
			short = append(short, p...)
		}
	})
	if err != nil {
		return err
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(length))
	x.w.WriteHeader(http.StatusOK)
	switch {
	case x.r.Method == http.MethodHead:
		return nil
	case length <= cap(short):
		x.w.mustWrite(short)
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
	at := 0
	for run := range slices.Chunk(m.samples, keysAtOnce) {
		keys, err := readKeys(ctx, index, run)
		if err != nil {
			return err
		}
		for i, s := range run {
			extent := chunkindex.Locate(index.Chunk(int(s.chunk)), index.Extents(int(s.chunk)), int64(s.offset))
			line, err := encodeJSON(manifestSample{
				Position: m.position(at), Key: keys[i], KeyBytes: bytesOfKey(keys[i]), Source: m.dataset.sourceOf(int(s.chunk)), Shard: index.Shard(extent.Shard).Key,
				Offset: extent.Offset, Length: s.length, CRC32C: fmt.Sprintf("%08x", s.crc),
			})
			if err != nil {
				return err
			}
			if at > 0 {
				write([]byte{','})
			}
			write(line[:len(line)-1])
			at++
		}
	}
	write([]byte("]}\n"))
	return nil
}
