package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
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
	share := b.batching().Share(b.batch, b.rank, b.worldSize)
	if err := checkShare(share); err != nil {
		return err
	}
	etag := b.etag("manifest")
	b.describe(x.w.Header(), share, etag)
	x.w.Header().Set("Content-Location", manifestURL(b))
	x.w.Header().Del("Link")
	if notModified(x.r, etag) {
		x.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	release, err := g.reserve(x.r.Context(), int64(share.Count)*planningBytes)
	if err != nil {
		return err
	}
	defer release()
	start := time.Now()
	_, l, err := g.plan(x, b, share)
	x.log.plan = time.Since(start)
	if err != nil {
		return err
	}
	defer g.recycle(l)
	m := manifest{batchRequest: b, located: l, first: share.First}
	return g.sendManifest(x, m)
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
	out := g.buffers.get(x.w)
	defer g.buffers.put(out)
	if err := m.encode(context.WithoutCancel(x.r.Context()), out.write); err != nil {
		return err
	}
	out.flush()
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

func manifestURL(b batchRequest) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d/manifest?%s", b.dataset.Name, b.epoch, b.batch, b.canonical())
}
