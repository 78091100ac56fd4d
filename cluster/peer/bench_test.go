package peer

import (
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// batchQuery returns the query for a batch of 4,096 samples in 500 chunks.
func batchQuery() *Query {
	const chunks, samples = 500, 4096
	r := rand.New(rand.NewPCG(1, 2))
	q := &Query{Dataset: "imagenet", Generation: "5fb8c1d2", Reader: goldenQuery().Reader}
	for i := range chunks {
		w := ChunkQuery{Chunk: 7 * i, Digest: digestOf(i)}
		for k := i; k < samples; k += chunks {
			w.Ranges = append(w.Ranges, Range{Offset: r.Uint32N(64 << 20), Length: 110_000 + r.Uint32N(20_000)})
		}
		q.Chunks = append(q.Chunks, w)
	}
	return q
}

func BenchmarkQueryWrite(b *testing.B) {
	q := batchQuery()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.AppendBinary(nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQueryRead(b *testing.B) {
	text, err := batchQuery().AppendBinary(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseQuery(text); err != nil {
			b.Fatal(err)
		}
	}
}

const benchSamples, benchSize = 256, 110 << 10

// BenchmarkPeerRead measures the transfer of a batch from one gateway's memory into another's over
// loopback, with samples of the size of images and with small ones.
func BenchmarkPeerRead(b *testing.B) {
	for _, c := range []struct {
		name                   string
		chunks, ranges, length int
		encrypted              bool
	}{
		{"110KiB", 16, benchSamples / 16, benchSize, false},
		{"4KiB", 16, 256, 4 << 10, false},
		{"1KiB", 16, 256, 1 << 10, false},
		{"TLS/110KiB", 16, benchSamples / 16, benchSize, true},
		{"TLS/4KiB", 16, 256, 4 << 10, true},
		{"TLS/1KiB", 16, 256, 1 << 10, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			client, address, q, dst := benchPeer(b, c.chunks, c.ranges, c.length, c.encrypted)
			b.SetBytes(int64(len(dst) * c.length))
			b.ReportAllocs()
			for b.Loop() {
				if err := client.Read(b.Context(), address, q, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchPeer(b *testing.B, chunks, ranges, length int, encrypted bool) (client *Client, address string, q *Query, dst [][]byte) {
	b.Helper()
	s := newShelf(chunks, length+1<<20)
	s.uncounted = true
	q, dst, _ = s.question(ranges, length)
	server, asks := serverOf(s), (*tls.Config)(nil)
	if encrypted {
		f := files(b, issue(b, certtest.New(b), nil))
		server.TLS, asks = f.Server(), f.Client()
	}
	return asker(b, func(cfg *ClientConfig) { cfg.TLS = asks }), start(b, server), q, dst
}

// BenchmarkTwoHops measures a batch that passes through two processes. In "bare", both handlers
// only write and copy one slice. In "peer", the second process reads from the first one as a peer.
func BenchmarkTwoHops(b *testing.B) {
	body := make([]byte, benchSamples*benchSize)
	far := listenAndServe(b, func(w http.ResponseWriter) error {
		_, err := w.Write(body)
		return err
	})
	transport := &http.Transport{}
	b.Cleanup(transport.CloseIdleConnections)
	client, address, q, dst := benchPeer(b, 16, benchSamples/16, benchSize, false)
	for _, c := range []struct {
		name   string
		second func(http.ResponseWriter) error
	}{
		{"bare", func(w http.ResponseWriter) error { return get(b, transport, far, w) }},
		{"peer", func(w http.ResponseWriter) error {
			if err := client.Read(b.Context(), address, q, dst); err != nil {
				return err
			}
			parts := append(net.Buffers(nil), dst...)
			_, err := w.(io.ReaderFrom).ReadFrom(&parts)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			near := listenAndServe(b, c.second)
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := get(b, transport, near, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func get(b *testing.B, transport *http.Transport, address string, to io.Writer) error {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(to, resp.Body)
	return err
}

// listenAndServe answers each request through net/http's server with the body that answer writes,
// and returns its address.
func listenAndServe(b *testing.B, answer func(http.ResponseWriter) error) string {
	b.Helper()
	ln := listen(b)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(benchSamples*benchSize))
		if answer(w) != nil {
			panic(http.ErrAbortHandler)
		}
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln)
	}()
	b.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return ln.Addr().String()
}
