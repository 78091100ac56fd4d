package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
)

func BenchmarkBatch4K(b *testing.B)   { benchmarkBatch(b, 16384, 4<<10) }
func BenchmarkBatch110K(b *testing.B) { benchmarkBatch(b, 1024, 110<<10) }

func BenchmarkManifest(b *testing.B) {
	s := newStack(b, 32768, 512, 512<<10, 64<<20)
	b.ReportAllocs()
	m := 0
	for b.Loop() {
		if a := s.get(b, fmt.Sprintf("/v1/datasets/photos/epochs/0/batches/%d/manifest?window=64", m%128)); a.StatusCode != http.StatusOK {
			b.Fatalf("got status %d, want 200", a.StatusCode)
		}
		m++
	}
}

// benchmarkBatch reads batches that are in memory over one loopback connection.
func benchmarkBatch(b *testing.B, samples, size int) { benchmarkView(b, samples, size, "") }

// benchmarkView is benchmarkBatch with a query.
func benchmarkView(b *testing.B, samples, size int, query string) {
	s := newStack(b, samples, size, 8<<20, 1<<30)
	batches := samples / 256
	c := dial(b, s.addr)
	r := bufio.NewReaderSize(c, 256<<10)
	get := func(m int) int64 {
		fmt.Fprintf(c, "GET /epoch/0/batch/%d%s HTTP/1.1\r\nHost: localhost\r\n\r\n", m, query)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if err != nil || res.StatusCode != http.StatusOK || n != res.ContentLength {
			b.Fatalf("got status %d, %d bytes and %v, want 200 and the whole batch", res.StatusCode, n, err)
		}
		return n
	}
	for m := range batches {
		b.SetBytes(get(m))
	}
	b.ReportAllocs()
	m := 0
	for b.Loop() {
		get(m % batches)
		m++
	}
	b.ReportMetric(256*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}

// BenchmarkDetails4K reads batches of samples of 4 KiB whose keys and parts are told or chosen: these are read of the index once.
func BenchmarkDetails4K(b *testing.B) {
	for _, view := range []string{"format=tar", "format=framed", "format=framed&table=keys", "format=framed&table=parts", "fields=bin"} {
		b.Run(view, func(b *testing.B) {
			benchmarkView(b, 65536, 4<<10, "?window=32&"+view)
		})
	}
}
