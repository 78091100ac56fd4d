//go:build !race

package s3backend

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"net"
	"runtime"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
)

// bare starts a server that answers every request with the same bytes, without an allocation.
func bare(tb testing.TB, answer []byte) (url string) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := make([]byte, 8<<10)
				for at := 0; ; {
					n, err := c.Read(in[at:])
					if err != nil {
						return
					}
					if at += n; bytes.HasSuffix(in[:at], []byte("\r\n\r\n")) {
						c.Write(answer)
						at = 0
					}
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// ranged returns the response to a read of the first n bytes, with the headers that MinIO sends.
func ranged(n int) []byte {
	out := fmt.Appendf(nil, "HTTP/1.1 206 Partial Content\r\nAccept-Ranges: bytes\r\nContent-Length: %d\r\nContent-Range: bytes 0-%d/%d\r\n"+
		"Content-Type: application/octet-stream\r\nETag: %q\r\nLast-Modified: Mon, 02 Jan 2006 15:04:05 GMT\r\nServer: MinIO\r\n"+
		"Strict-Transport-Security: max-age=31536000; includeSubDomains\r\nVary: Origin\r\nX-Amz-Request-Id: 187A0C2E3D1F4B5A\r\n"+
		"X-Content-Type-Options: nosniff\r\nX-Xss-Protection: 1; mode=block\r\nDate: Mon, 23 Nov 2026 00:00:00 GMT\r\n\r\n", n, n-1, 2*n, testETag)
	return append(out, sample(n)...)
}

func bareBackend(tb testing.TB, n int) *Backend {
	tb.Helper()
	tb.Setenv("AWS_ACCESS_KEY_ID", "id")
	tb.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	b, err := New(Config{Bucket: "train", Endpoint: bare(tb, ranged(n)), PathStyle: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { b.Close() })
	return b
}

// TestReadIsCheap counts the allocations of a read of 4 KiB, since readers of single samples make
// many small reads. It does not run with the race detector, because pools do not keep objects then.
func TestReadIsCheap(t *testing.T) {
	const most, mostBytes = 115, 15 << 9
	b, dst := bareBackend(t, 4<<10), make([]byte, 4<<10)
	read := func() {
		if err := b.ReadRange(t.Context(), ref, 0, dst); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * hedgeLearn { // from now on, late responses cause second requests
		read()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const runs = 2000
	for range runs {
		read()
	}
	runtime.ReadMemStats(&after)
	allocs, size := (after.Mallocs-before.Mallocs)/runs, (after.TotalAlloc-before.TotalAlloc)/runs
	t.Logf("%d allocations of %d bytes", allocs, size)
	if allocs > most || size > mostBytes {
		t.Errorf("got %d allocations of %d bytes, want at most %d of %d", allocs, size, most, mostBytes)
	}
}

// BenchmarkReadRange reads from a store that sends prepared responses, and computes the checksum of
// the bytes as they arrive.
func BenchmarkReadRange(b *testing.B) {
	for _, n := range []int{4 << 10, 1 << 20, 8 << 20} {
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			s, dst := bareBackend(b, n), make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			table := crc32.MakeTable(crc32.Castagnoli)
			for b.Loop() {
				var seen int64
				var sum uint32
				summed := objstore.WithProgress(b.Context(), func(n int64) {
					sum, seen = crc32.Update(sum, table, dst[seen:n]), n
				})
				if err := s.ReadRange(summed, objstore.Ref{Key: testKey, ETag: testETag}, 0, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
