package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
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

// benchmarkBatch reads batches from memory over one loopback connection.
func benchmarkBatch(b *testing.B, samples, size int) { benchmarkView(b, samples, size, "") }

// benchmarkView is like benchmarkBatch, with a query.
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

// BenchmarkBatchOverTLS reads batches from memory over one loopback connection with TLS. It
// alternates with a minimal server that writes the same number of bytes from one slice.
func BenchmarkBatchOverTLS(b *testing.B) {
	for name, c := range map[string]struct{ samples, size int }{"4K": {16384, 4 << 10}, "110K": {1024, 110 << 10}} {
		b.Run(name, func(b *testing.B) {
			served, client := secret(b)
			s := newStack(b, c.samples, c.size, 8<<20, 1<<30)
			body := s.get(b, "/epoch/0/batch/0").body
			gatewayPort, barePort := listen(b), listen(b)
			ctx, cancel := context.WithCancel(context.Background())
			bare := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				_, _ = w.Write(body)
			})}
			var serving sync.WaitGroup
			serving.Go(func() { _ = gateway.NewServer(s.gateway, gateway.ServerConfig{TLS: served}).Serve(ctx, gatewayPort) })
			serving.Go(func() { _ = bare.Serve(tls.NewListener(barePort, served)) })
			defer serving.Wait()
			defer bare.Close()
			defer cancel()
			ours, theirs := tls.Client(dial(b, gatewayPort.Addr().String()), client), tls.Client(dial(b, barePort.Addr().String()), client)
			defer ours.Close()
			defer theirs.Close()
			var took [2][]time.Duration
			for m := 0; b.Loop(); m++ {
				for i, conn := range []net.Conn{ours, theirs} {
					began := time.Now()
					readBatch(b, conn, m%(c.samples/256))
					took[i] = append(took[i], time.Since(began))
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			own, bares := took[0][b.N/2], took[1][b.N/2]
			b.ReportMetric(float64(len(body))/own.Seconds()/1e6, "MB/s")
			b.ReportMetric(float64(bares)/float64(own), "x_of_bare")
		})
	}
}

func listen(b *testing.B) net.Listener {
	b.Helper()
	ln, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return ln
}

func readBatch(b *testing.B, conn net.Conn, m int) {
	fmt.Fprintf(conn, "GET /epoch/0/batch/%d HTTP/1.1\r\nHost: localhost\r\n\r\n", m)
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 256<<10), nil)
	if err != nil {
		b.Fatal(err)
	}
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil || res.StatusCode != http.StatusOK || n != res.ContentLength {
		b.Fatalf("got status %d, %d bytes and %v, want 200 and the whole batch", res.StatusCode, n, err)
	}
}

// BenchmarkDetails4K reads batches of samples of 4 KiB whose keys and parts are included or
// selected. These are read from the index once.
func BenchmarkDetails4K(b *testing.B) {
	for _, view := range []string{"format=tar", "format=framed", "format=framed&table=keys", "format=framed&table=parts", "fields=bin"} {
		b.Run(view, func(b *testing.B) {
			benchmarkView(b, 65536, 4<<10, "?window=32&"+view)
		})
	}
}
