package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testCluster    = "job-a"
	testDataset    = "images"
	testGeneration = "5fb8"
)

// shelf is a holder of chunks that are bytes of a generator.
type shelf struct {
	chunks map[int][]byte
	answer func(ctx context.Context, q *Query) error // before it answers

	uncounted bool // neither questions nor bodies are remembered

	mu    sync.Mutex
	asked []*Query
	given chan struct{} // one for each body given back
}

func newShelf(chunks, length int) *shelf {
	s := &shelf{chunks: map[int][]byte{}, given: make(chan struct{}, 100)}
	r := rand.NewChaCha8([32]byte{1})
	for i := range chunks {
		s.chunks[i] = make([]byte, length)
		_, _ = r.Read(s.chunks[i])
	}
	return s
}

func digestOf(chunk int) (d [32]byte) {
	d[0], d[1] = byte(chunk), byte(chunk>>8)
	return d
}

func (s *shelf) Answer(ctx context.Context, q *Query) (segments [][]byte, release func(), err error) {
	if !s.uncounted {
		s.mu.Lock()
		s.asked = append(s.asked, q)
		s.mu.Unlock()
	}
	if s.answer != nil {
		if err := s.answer(ctx, q); err != nil {
			return nil, nil, err
		}
	}
	if q.Dataset != testDataset || q.Generation != testGeneration {
		return nil, nil, fmt.Errorf("dataset %s: %w", q.Dataset, ErrNotServed)
	}
	for _, c := range q.Chunks {
		text, ok := s.chunks[c.Chunk]
		if !ok || c.Digest != digestOf(c.Chunk) {
			return nil, nil, fmt.Errorf("chunk %d: %w", c.Chunk, ErrMismatch)
		}
		for _, r := range c.Ranges {
			if int(r.Offset)+int(r.Length) > len(text) {
				return nil, nil, fmt.Errorf("chunk %d: %w", c.Chunk, ErrMismatch)
			}
			segments = append(segments, text[r.Offset:][:r.Length])
		}
	}
	return segments, func() {
		if !s.uncounted {
			s.given <- struct{}{}
		}
	}, nil
}

// question returns a question for some ranges of each chunk of a shelf, and the expected answer.
func (s *shelf) question(ranges, length int) (q *Query, dst, want [][]byte) {
	q = &Query{Dataset: testDataset, Generation: testGeneration}
	for i := range len(s.chunks) {
		w := ChunkQuery{Chunk: i, Digest: digestOf(i)}
		for k := range ranges {
			offset := k * (len(s.chunks[i]) - length) / ranges
			w.Ranges = append(w.Ranges, Range{Offset: uint32(offset), Length: uint32(length)})
			want = append(want, s.chunks[i][offset:][:length])
			dst = append(dst, make([]byte, length))
		}
		q.Chunks = append(q.Chunks, w)
	}
	return q, dst, want
}

// header returns the headers of every request of a gateway.
func header() http.Header {
	return http.Header{
		ClusterHeader: {testCluster}, VersionHeader: {strconv.Itoa(Version)}, MemberHeader: {"a"}, DeadlineHeader: {"60000"},
	}
}

func same(t *testing.T, got, want [][]byte) {
	t.Helper()
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("range %d: the bytes differ", i)
		}
	}
}

func self() Hello {
	return Hello{Cluster: testCluster, ID: "b", Boot: "1", OrderVersion: 1, Weight: 1 << 30}
}

// greets answers every hello with one.
func greets(own Hello) func(Hello, string) (Hello, error) {
	return func(Hello, string) (Hello, error) { return own, nil }
}

func serverOf(h Holder) ServerConfig {
	return ServerConfig{Cluster: testCluster, Met: greets(self()), Holder: h, Log: zerolog.Nop(), SharedCert: true}
}

// serve runs a server on a listener until the test ends.
func serve(t testing.TB, ln net.Listener, cfg ServerConfig) *Server {
	t.Helper()
	s := NewServer(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// start runs a server on a loopback address.
func start(t testing.TB, cfg ServerConfig) string {
	t.Helper()
	ln := listen(t)
	serve(t, ln, cfg)
	return ln.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// asker returns a client of the test's cluster, which is closed with the test, before servers that
// were started earlier.
func asker(t testing.TB, change func(*ClientConfig)) *Client {
	t.Helper()
	cfg := ClientConfig{Cluster: testCluster, ID: "a", SharedCert: true}
	// On two cores shared by many tests anything may be delayed, so tests of timing use a fake
	// clock.
	cfg.Dial, cfg.Silence = time.Minute, time.Minute
	if change != nil {
		change(&cfg)
	}
	c := NewClient(cfg)
	t.Cleanup(c.Close)
	return c
}

// liar answers each connection by hand, and returns its address.
func liar(t *testing.T, answer func(conn net.Conn)) string {
	t.Helper()
	ln := listen(t)
	answerByHand(t, ln, answer)
	return ln.Addr().String()
}

// answerByHand hands each connection to answer once the request's head and body are read, until the
// test ends.
func answerByHand(t *testing.T, ln net.Listener, answer func(conn net.Conn)) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					answer(conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		wg.Wait()
	})
}

// pipes is a network in memory, for a clock that is not real.
type pipes struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{calls: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.calls <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
