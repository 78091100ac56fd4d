package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// load is the sum of all data that readers received.
type load struct {
	bytes     int64
	samples   int64
	requests  int64
	elapsed   time.Duration
	latencies []float64 // seconds, request to last byte
	memory    []float64 // milliseconds in the memory tier, from Server-Timing
}

func (l load) rate() float64       { return float64(l.bytes) / l.elapsed.Seconds() }
func (l load) tail() float64       { return quantile(l.latencies, 0.99) / quantile(l.latencies, 0.5) }
func (l load) late() float64       { return quantile(l.latencies, 0.99) }
func (l load) sampleRate() float64 { return float64(l.samples) / l.elapsed.Seconds() }

// read requests path(0), path(1), ... over conns keep-alive connections. It stops when path returns
// an empty string or span has passed (0: no limit). It discards the bodies: the reader does as
// little as possible, because it shares the machine with the server.
func read(ctx context.Context, addr string, conns int, span time.Duration, path func(i int64) string) (load, error) {
	var next atomic.Int64
	var mu sync.Mutex
	var total load
	var failure error
	begin := time.Now()
	var wg sync.WaitGroup
	for range conns {
		wg.Go(func() {
			var l load
			err := l.readAll(ctx, addr, func() string {
				if span > 0 && time.Since(begin) > span {
					return ""
				}
				return path(next.Add(1) - 1)
			})
			mu.Lock()
			defer mu.Unlock()
			total.bytes += l.bytes
			total.samples += l.samples
			total.requests += l.requests
			total.latencies = append(total.latencies, l.latencies...)
			total.memory = append(total.memory, l.memory...)
			if err != nil && failure == nil {
				failure = err
			}
		})
	}
	wg.Wait()
	total.elapsed = time.Since(begin)
	return total, failure
}

// readAll reads over one connection after another, until next returns an empty string.
func (l *load) readAll(ctx context.Context, addr string, next func() string) error {
	for {
		if ended, err := l.readConn(ctx, addr, next); ended || err != nil {
			return err
		}
	}
}

// readConn reads over one connection, until the connection or the paths end.
func (l *load) readConn(ctx context.Context, addr string, next func() string) (ended bool, err error) {
	host := strings.TrimPrefix(addr, https)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return true, err
	}
	if host != addr {
		conn = tls.Client(conn, anyServer())
	}
	defer conn.Close() // read to the end
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r := bufio.NewReaderSize(conn, 64<<10)
	buf := make([]byte, 256<<10)
	for {
		path := next()
		if path == "" {
			return true, nil
		}
		begin := time.Now()
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
			return true, err
		}
		before := l.samples
		length, last, err := l.head(r)
		if err == nil {
			err = whole(path, l.samples-before, length)
		}
		if err != nil {
			return true, fmt.Errorf("GET %s: %w", path, err)
		}
		if err := discard(r, conn, length, buf); err != nil {
			return true, fmt.Errorf("GET %s: body: %w", path, err)
		}
		l.latencies = append(l.latencies, time.Since(begin).Seconds())
		l.bytes += length
		l.requests++
		if last {
			return false, nil
		}
	}
}

// head reads the status and the headers. last reports whether the server closes the connection
// after this response.
func (l *load) head(r *bufio.Reader) (length int64, last bool, err error) {
	length = -1
	for first := true; ; first = false {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, false, err
		}
		line = strings.TrimSpace(line)
		if first {
			if !strings.HasPrefix(line, "HTTP/1.1 200") {
				return 0, false, fmt.Errorf("%s", line)
			}
			continue
		}
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ": ")
		switch strings.ToLower(name) {
		case "content-length":
			length, err = strconv.ParseInt(value, 10, 64)
		case "millrace-samples":
			var n int64
			n, err = strconv.ParseInt(value, 10, 64)
			l.samples += n
		case "connection":
			last = value == "close"
		case "server-timing":
			if ms, ok := timing(value, "memory"); ok {
				l.memory = append(l.memory, ms)
			}
		}
		if err != nil {
			return 0, false, err
		}
	}
	if length < 0 {
		return 0, false, fmt.Errorf("no Content-Length")
	}
	return length, last, nil
}

// timing returns the duration of a metric in a Server-Timing header.
func timing(header, metric string) (float64, bool) {
	for part := range strings.SplitSeq(header, ",") {
		name, rest, _ := strings.Cut(strings.TrimSpace(part), ";")
		if _, d, ok := strings.Cut(rest, "dur="); ok && name == metric {
			d, _, _ = strings.Cut(d, ";")
			ms, err := strconv.ParseFloat(d, 64)
			return ms, err == nil
		}
	}
	return 0, false
}

func discard(r *bufio.Reader, conn net.Conn, n int64, buf []byte) error {
	held := min(int64(r.Buffered()), n)
	if _, err := r.Discard(int(held)); err != nil {
		return err
	}
	for n -= held; n > 0; {
		got, err := conn.Read(buf[:min(n, int64(len(buf)))])
		n -= int64(got)
		if err == io.EOF && n > 0 { //nolint:errorlint // a reader ends with io.EOF itself; a wrapped one is a fault
			return io.ErrUnexpectedEOF
		}
		if err != nil && n > 0 {
			return err
		}
	}
	return nil
}
