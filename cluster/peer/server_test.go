package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

func TestReadReturnsTheRangesInOrder(t *testing.T) {
	for _, c := range []struct{ chunks, length, ranges, each int }{
		{1, 10, 1, 0},               // only a sample without bytes
		{1, 100, 3, 10},             // within the first bytes that net/http inspects
		{40, 30_000, 100, 90},       // small samples, gathered into several pieces
		{3, 5 << 20, 2, 3 << 20},    // larger than a piece
		{20, 200_000, 9, 20_000},    // the usual
		{2, 2 << 20, 1, 1<<20 + 99}, // slightly more than a piece
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			s := newShelf(c.chunks, c.length)
			address := start(t, serverOf(s))
			client := asker(t, nil)
			q, dst, want := s.question(c.ranges, c.each)
			for range 3 { // on one connection, kept alive
				if err := client.Read(t.Context(), address, q, dst); err != nil {
					t.Fatal(err)
				}
				same(t, dst, want)
				for _, p := range dst {
					clear(p)
				}
			}
			if diff := cmp.Diff(q, s.asked[0]); diff != "" {
				t.Errorf("the query that came (-want +got):\n%s", diff)
			}
			for range 3 {
				<-s.given // the test hangs here if a body is not released
			}
		})
	}
}

// TestSmallAndLargeRangesMixed puts small and large ranges at the limits of a piece, and at those
// of the buffer for small ranges.
func TestSmallAndLargeRangesMixed(t *testing.T) {
	s := newShelf(1, 4<<20)
	address := start(t, serverOf(s))
	client := asker(t, nil)
	q := &Query{Dataset: testDataset, Generation: testGeneration, Chunks: []ChunkQuery{{Digest: digestOf(0)}}}
	var dst, want [][]byte
	for i := range 4000 {
		length := []int{0, 1, 37, 4095, 4096, 1, 1<<20 - 3, 2, 64 << 10}[(i*i+i/7)%9]
		if length > 64<<10 && i%40 != 0 {
			length = 5
		}
		offset := i * 11 % (len(s.chunks[0]) - length)
		q.Chunks[0].Ranges = append(q.Chunks[0].Ranges, Range{Offset: uint32(offset), Length: uint32(length)})
		dst, want = append(dst, make([]byte, length)), append(want, s.chunks[0][offset:][:length])
	}
	if err := client.Read(t.Context(), address, q, dst); err != nil {
		t.Fatal(err)
	}
	same(t, dst, want)
}

// ask posts a request with the headers of a gateway. change may alter the request.
func ask(t *testing.T, address, path string, body []byte, change func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header()
	if change != nil {
		change(r)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func set(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func problemIn(t *testing.T, resp *http.Response) RefusalError {
	t.Helper()
	var said struct {
		Type, Title, Code, Detail string
		Status                    int
	}
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
		t.Fatalf("status %d without a problem: %v", resp.StatusCode, err)
	}
	if said.Type != "urn:millrace:error:"+said.Code || said.Title != http.StatusText(resp.StatusCode) || said.Status != resp.StatusCode {
		t.Errorf("problem: got %+v with status %d, want type, title and status to agree", said, resp.StatusCode)
	}
	if got := resp.Header.Get("Content-Type"); got != contentProblem {
		t.Errorf("Content-Type: got %q, want %q", got, contentProblem)
	}
	if resp.ContentLength < 0 {
		t.Error("a problem without Content-Length")
	}
	return RefusalError{Status: resp.StatusCode, Code: said.Code, Detail: said.Detail}
}

func TestCodes(t *testing.T) {
	s := newShelf(1, 100)
	cfg := serverOf(s)
	cfg.Met = func(h Hello, _ string) (Hello, error) {
		if h.ID == "stranger" {
			return Hello{}, errors.New("its address 127.0.0.1:1 is nobody else's")
		}
		return self(), nil
	}
	address := start(t, cfg)
	q, _, _ := s.question(1, 10)
	good, err := q.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	get := func(r *http.Request) { r.Method, r.Body, r.ContentLength = http.MethodGet, nil, 0 }
	for _, c := range []struct {
		name, path string
		body       []byte
		change     func(*http.Request)
		status     int
		code       string
		words      string // expected in the detail
	}{
		{"a batch asked of the peer port", "/epoch/0/batch/1", nil, get, 421, CodePeerPort, "clients use the data port"},
		{"a data set asked of the peer port", "/v1/datasets", nil, get, 421, CodePeerPort, "clients use the data port"},
		{"nothing in particular", "/", nil, get, 421, CodePeerPort, "data port"},
		{"a path next to one", readPath + "/", good, nil, 421, CodePeerPort, "data port"},
		{"GET", readPath, nil, get, 400, CodeInvalid, "POST"},
		{"another cluster", readPath, good, set(ClusterHeader, "job-b"), 421, CodeOtherCluster, `"job-a", not to ["job-b"]`},
		{"no cluster", readPath, good, func(r *http.Request) { r.Header.Del(ClusterHeader) }, 421, CodeOtherCluster, `"job-a"`},
		{"another version", readPath, good, set(VersionHeader, "1"), 409, CodeOtherVersion, `["1"] there and 2 here`},
		{"hello of another version", helloPath, []byte("{}"), set(VersionHeader, "1"), 409, CodeOtherVersion, `["1"] there and 2 here`},
		{"no deadline", readPath, good, func(r *http.Request) { r.Header.Del(DeadlineHeader) }, 400, CodeInvalid, DeadlineHeader},
		{"a deadline that has passed", readPath, good, set(DeadlineHeader, "0"), 400, CodeInvalid, DeadlineHeader},
		{"a deadline with a sign", readPath, good, set(DeadlineHeader, "+5"), 400, CodeInvalid, DeadlineHeader},
		{"no query", readPath, nil, nil, 400, CodeInvalid, "query of 0 bytes"},
		{"half a query", readPath, good[:len(good)/2], nil, 400, CodeInvalid, "checksum"},
		{"a query and more", readPath, append(bytes.Clone(good), good...), nil, 400, CodeInvalid, "checksum"},
		{"a query without length", readPath, good, func(r *http.Request) { r.ContentLength = -1 }, 400, CodeInvalid, "Content-Length"},
		{"hello that is no JSON", helloPath, []byte("hi"), nil, 400, CodeInvalid, "not a valid hello"},
		{"hello of nobody", helloPath, []byte(`{"cluster":"job-a"}`), nil, 400, CodeInvalid, "id"},
		{"a hello of another gateway", helloPath, []byte(`{"cluster":"job-a","id":"b"}`), nil, 403, CodeRefused, `"a" sent a hello with the ID "b"`},
		{"a stranger's hello", helloPath, []byte(`{"cluster":"job-a","id":"stranger"}`), set(MemberHeader, "stranger"), 403, CodeRefused, "127.0.0.1:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problemIn(t, ask(t, address, c.path, c.body, c.change))
			if got.Status != c.status || got.Code != c.code || !strings.Contains(got.Detail, c.words) {
				t.Errorf("got %+v, want %d %s with %q", got, c.status, c.code, c.words)
			}
		})
	}
	if len(s.asked) != 0 {
		t.Errorf("the holder was asked %d times, want never", len(s.asked))
	}
}

// TestHoldersErrorsReachTheAsker: each error of a holder passes through server and client, without
// the text of the errors that it wraps.
func TestHoldersErrorsReachTheAsker(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
		means  error
	}{
		{ErrNotHere, 404, CodeNotHere, ErrNotHere},
		{ErrNotServed, 404, CodeNotServed, ErrNotServed},
		{ErrMismatch, 409, CodeMismatch, ErrMismatch},
		{ErrNoRoom, 503, CodeOverloaded, ErrNoRoom},
		{ErrQuota, 503, CodeQuota, ErrQuota},
		{context.DeadlineExceeded, 504, CodeTimeout, nil},
		{errors.New("s3: no such host"), 502, CodeStore, nil},
	} {
		s := newShelf(1, 100)
		s.answer = func(context.Context, *Query) error { return fmt.Errorf("bucket hunter2: %w", c.err) }
		address := start(t, serverOf(s))
		q, dst, _ := s.question(1, 10)
		err := asker(t, nil).Read(t.Context(), address, q, dst)
		var refused *RefusalError
		if !errors.As(err, &refused) || refused.Status != c.status || refused.Code != c.code {
			t.Errorf("%v: got %v, want %d %s", c.err, err, c.status, c.code)
		}
		for _, other := range []error{ErrNotHere, ErrNotServed, ErrMismatch, ErrNoRoom, ErrQuota, ErrDown, ErrMalformed} {
			if got, want := errors.Is(err, other), errors.Is(c.means, other); got != want {
				t.Errorf("%v: is it %v: got %v, want %v", c.err, other, got, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: the answer contains the wrapped error: %v", c.err, err)
		}
	}
}

func TestHoldersThatBreakDoNotBreakTheServer(t *testing.T) {
	for _, c := range []struct {
		name   string
		holder Holder
	}{
		{"panics", holderFunc(func(context.Context, *Query) ([][]byte, func(), error) { panic("at the disco") })},
		{"answers too little", holderFunc(func(context.Context, *Query) ([][]byte, func(), error) {
			return [][]byte{make([]byte, 9)}, func() {}, nil
		})},
		{"answers too much", holderFunc(func(context.Context, *Query) ([][]byte, func(), error) {
			return [][]byte{make([]byte, 10), nil}, func() {}, nil
		})},
	} {
		log := journal{make(chan string, 9)}
		cfg := serverOf(c.holder)
		cfg.Log = zerolog.New(log)
		address := start(t, cfg)
		client := asker(t, nil)
		q, dst, _ := newShelf(1, 100).question(1, 10)
		for range 2 {
			if err := client.Read(t.Context(), address, q, dst); !errors.Is(err, ErrDown) {
				t.Errorf("%s: got %v, want %v", c.name, err, ErrDown)
			}
		}
		log.await("panic serving")
	}
}

type holderFunc func(context.Context, *Query) ([][]byte, func(), error)

func (f holderFunc) Answer(ctx context.Context, q *Query) ([][]byte, func(), error) { return f(ctx, q) }

func TestReadersAreHeardOf(t *testing.T) {
	s := newShelf(1, 100)
	cfg := serverOf(s)
	var got []Reader
	cfg.Heard = func(dataset, generation string, r Reader) {
		if dataset != testDataset || generation != testGeneration {
			t.Errorf("heard of a reader of %s %s", dataset, generation)
		}
		got = append(got, r)
	}
	address := start(t, cfg)
	client := asker(t, nil)
	q, dst, _ := s.question(1, 10)
	if err := client.Read(t.Context(), address, q, dst); err != nil {
		t.Fatal(err)
	}
	q.Reader = goldenQuery().Reader
	if err := client.Read(t.Context(), address, q, dst); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Reader{*goldenQuery().Reader}, got); diff != "" {
		t.Errorf("readers heard of (-want +got):\n%s", diff)
	}
}

func TestHello(t *testing.T) {
	cfg := serverOf(newShelf(0, 0))
	var met Hello
	own := self()
	own.Held = []ChunkList{{DatasetGeneration: DatasetGeneration{testDataset, testGeneration}, Chunks: []uint32{9, 3, 4}}}
	cfg.Met = func(h Hello, remote string) (Hello, error) {
		if met = h; remote == "" {
			t.Error("the address of a hello is missing")
		}
		return own, nil
	}
	address := start(t, cfg)
	client := asker(t, nil)
	mine := Hello{
		Cluster: testCluster, ID: "a", Boot: "7", Weight: 1 << 60, OrderVersion: 1,
		Serves: []DatasetGeneration{{Dataset: testDataset, Generation: testGeneration}}, Draining: true,
	}
	theirs, err := client.Hello(t.Context(), address, mine)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(own, theirs); diff != "" {
		t.Errorf("their hello (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(mine, met); diff != "" {
		t.Errorf("our hello (-want +got):\n%s", diff)
	}
}

// TestTheLongestHelloIsRead: the longest answer to a hello is within the limit for reading one.
func TestTheLongestHelloIsRead(t *testing.T) {
	own := self()
	own.Held = []ChunkList{{DatasetGeneration: DatasetGeneration{Dataset: "x"}, Chunks: make([]uint32, MostHeld)}}
	for i := range own.Held[0].Chunks {
		own.Held[0].Chunks[i] = 4_000_000_000 + uint32(i)
	}
	cfg := serverOf(newShelf(0, 0))
	cfg.Met = greets(own)
	theirs, err := asker(t, nil).Hello(t.Context(), start(t, cfg), Hello{ID: "a"})
	if err != nil || len(theirs.Held) != 1 || !slices.Equal(theirs.Held[0].Chunks, own.Held[0].Chunks) {
		t.Errorf("got %d lists of chunks and %v, want one of all of them", len(theirs.Held), err)
	}
}

func TestReadsAtATimeAreBounded(t *testing.T) {
	s := newShelf(1, 100)
	begun, end := make(chan struct{}), make(chan struct{})
	s.answer = func(context.Context, *Query) error {
		begun <- struct{}{}
		<-end
		return nil
	}
	cfg := serverOf(s)
	cfg.Reads = 1
	address := start(t, cfg)
	client := asker(t, nil)
	q, dst, want := s.question(1, 10)
	first := make(chan error, 1)
	go func() { first <- client.Read(t.Context(), address, q, dst) }()
	<-begun
	_, other, _ := s.question(1, 10)
	if err := client.Read(t.Context(), address, q, other); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a second read: got %v, want %v", err, ErrNoRoom)
	}
	if _, err := client.Hello(t.Context(), address, Hello{Cluster: testCluster, ID: "a"}); err != nil {
		t.Errorf("hello meanwhile: %v", err)
	}
	close(end)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	same(t, dst, want)
}

// TestAskersThatLeaveEndTheirQuestion: when an asker leaves, its question ends and its bytes are
// released.
func TestAskersThatLeaveEndTheirQuestion(t *testing.T) {
	s := newShelf(1, 100)
	begun, ended := make(chan struct{}), make(chan struct{})
	s.answer = func(ctx context.Context, _ *Query) error {
		close(begun)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}
	address := start(t, serverOf(s))
	ctx, cancel := context.WithCancel(t.Context())
	q, dst, _ := s.question(1, 10)
	done := make(chan error, 1)
	client := asker(t, nil)
	go func() { done <- client.Read(ctx, address, q, dst) }()
	<-begun
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, ErrDown) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	<-ended
}

func TestServeEndsWhatIsInFlightAndNothingElse(t *testing.T) {
	s := newShelf(1, 100)
	begun, end := make(chan struct{}), make(chan struct{})
	s.answer = func(context.Context, *Query) error {
		close(begun)
		<-end
		return nil
	}
	ln := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- NewServer(serverOf(s)).Serve(ctx, ln) }()
	client := asker(t, nil)
	q, dst, want := s.question(1, 10)
	read := make(chan error, 1)
	go func() { read <- client.Read(context.WithoutCancel(t.Context()), ln.Addr().String(), q, dst) }()
	<-begun
	cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for closes := false; !closes; { // until the server drains
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, "http://"+ln.Addr().String()+helloPath, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header()
		r.Header.Set("Idempotency-Key", "hello") // lets the transport repeat the request if the server has just closed the idle connection
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		closes = resp.Close
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	close(end)
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	same(t, dst, want)
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if err := client.Read(context.WithoutCancel(t.Context()), ln.Addr().String(), q, dst); !errors.Is(err, ErrDown) {
		t.Errorf("a canceled read: got %v, want %v", err, ErrDown)
	}
}

// TestServeLeavesNothingWhenItsListenerBreaks: when Serve has returned, no answer is still running.
func TestServeLeavesNothingWhenItsListenerBreaks(t *testing.T) {
	s := newShelf(1, 100)
	begun := make(chan struct{})
	s.answer = func(ctx context.Context, _ *Query) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	ln := listen(t)
	server := NewServer(serverOf(s))
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), ln) }()
	client := asker(t, nil)
	q, dst, _ := s.question(1, 10)
	read := make(chan error, 1)
	go func() { read <- client.Read(t.Context(), ln.Addr().String(), q, dst) }()
	<-begun
	_ = ln.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("serve: got %v, want %v", err, net.ErrClosed)
	}
	if got := server.active.Load(); got != 0 {
		t.Errorf("requests being answered: got %d, want none", got)
	}
	if err := <-read; !errors.Is(err, ErrDown) {
		t.Errorf("read: got %v, want %v", err, ErrDown)
	}
}

// say sends text to a server unchanged, and returns everything that the server sends until it
// closes.
func say(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, text) // the server may close before it has read everything
	answer, _ := io.ReadAll(bufio.NewReader(conn))
	return string(answer)
}

func TestHostileConnections(t *testing.T) {
	s := newShelf(1, 100)
	address := start(t, serverOf(s))
	q, _, _ := s.question(1, 10)
	good, err := q.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	head := "POST /peer/v1/read HTTP/1.1\r\nHost: x\r\nConnection: close\r\nMillrace-Cluster: job-a\r\n" +
		"Millrace-Peer-Version: 2\r\nMillrace-Deadline-Ms: 60000\r\n"
	length := func(n int) string { return "Content-Length: " + strconv.Itoa(n) + "\r\n\r\n" }
	for _, c := range []struct{ name, text, want string }{
		{"a valid request", head + length(len(good)) + string(good), "HTTP/1.1 200 OK"},
		{"headers that do not end", "POST / HTTP/1.1\r\nA: " + strings.Repeat("a", 128<<10), "HTTP/1.1 431"},
		{"many headers", "POST / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", 10<<10) + "\r\n", "HTTP/1.1 431"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 421"},
		{"two lengths", head + "Content-Length: 5\r\n" + length(len(good)) + string(good), "HTTP/1.1 400"},
		{"a length and chunks", head + "Transfer-Encoding: chunked\r\n" + length(5) + "0\r\n\r\n", "HTTP/1.1 400"},
		{"chunks", head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 400"},
		{"a length below zero", head + length(-1), "HTTP/1.1 400"},
		{"a query that is too long", head + length(maxQueryBytes+1), "HTTP/1.1 400"},
		{"a hello that is too long", strings.Replace(head, "read", "hello", 1) + length(maxHelloBytes+1), "HTTP/1.1 400"},
		{"a length beyond all", head + length(1<<62), "HTTP/1.1 400"},
		{"noise", "\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03\r\n\r\n", "HTTP/1.1 400"},
	} {
		if got := say(t, address, c.text); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %.200q, want %s", c.name, got, c.want)
		}
	}
	if len(s.asked) != 1 {
		t.Errorf("the holder was asked %d times, want once", len(s.asked))
	}
}
