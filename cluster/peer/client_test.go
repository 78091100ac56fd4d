package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestPeersThatLie: for any answer of a peer, the client accepts exactly the requested bytes or
// returns an error.
func TestPeersThatLie(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	body := strings.Repeat("x", 100)
	for _, c := range []struct {
		name, answer string
		want         error
	}{
		{"nothing", "", ErrDown},
		{"half a status", "HTTP/1.1 2", ErrDown},
		{"no HTTP", "hello, world\r\n\r\n", ErrDown},
		{"a short body", ok + "Content-Length: 100\r\n\r\n" + body[:99], ErrDown},
		{"no body", ok + "Content-Length: 100\r\n\r\n", ErrDown},
		{"a body that is said to be short", ok + "Content-Length: 99\r\n\r\n" + body[:99], ErrMalformed},
		{"a body that is said to be long", ok + "Content-Length: 101\r\n\r\n" + body + "x", ErrMalformed},
		{"a body said to be of 2^63-1 bytes", ok + "Content-Length: 9223372036854775807\r\n\r\n" + body, ErrMalformed},
		{"a body that ends with the connection", ok + "Connection: close\r\n\r\n" + body, ErrMalformed},
		{"a body in chunks", ok + "Transfer-Encoding: chunked\r\n\r\n64\r\n" + body + "\r\n0\r\n\r\n", ErrMalformed},
		{"two lengths", ok + "Content-Length: 100\r\nContent-Length: 101\r\n\r\n" + body, ErrDown},
		{"a body of no length", ok + "Content-Length: -1\r\n\r\n" + body, ErrDown},
		{"another place", "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n", ErrMalformed},
		{"part of it", "HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\n\r\n" + body, ErrMalformed},
		{"nothing new", "HTTP/1.1 304 Not Modified\r\n\r\n", ErrMalformed},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", ErrMalformed},
		{"a page", "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot here\n", ErrMalformed},
		{"a refusal with a good status", ok + "Content-Length: 19\r\n\r\n{\"code\":\"not_here\"}", ErrMalformed},
		{"a refusal that never ends", "HTTP/1.1 503 Busy\r\nContent-Length: 10000000\r\n\r\n" + strings.Repeat("x", 1<<20), ErrMalformed},
		{"a refusal that breaks off", "HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\n{\"code\"", ErrDown},
		{"many headers", ok + strings.Repeat("A: b\r\n", 10<<10) + "Content-Length: 100\r\n\r\n" + body, ErrDown},
		{"a sign with many headers", "HTTP/1.1 102 Processing\r\n" + strings.Repeat("A: b\r\n", 10<<10) + "\r\n", ErrDown},
		{"nothing but signs of life", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 100_000), ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := liar(t, func(conn net.Conn) { _, _ = io.WriteString(conn, c.answer) })
			q, dst, _ := newShelf(1, 100).question(1, 100)
			err := asker(t, nil).Read(t.Context(), address, q, dst)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestRefusalsOfALaterVersionAreKept(t *testing.T) {
	address := liar(t, func(conn net.Conn) {
		text := `{"code":"on_holiday","detail":"back\u001b[2J on\nMonday` + strings.Repeat("!", 9000) + `","status":503}`
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	})
	q, dst, _ := newShelf(1, 100).question(1, 4)
	err := asker(t, nil).Read(t.Context(), address, q, dst)
	var refused *RefusalError
	want := RefusalError{Status: 503, Code: "on_holiday", Detail: "back [2J on Monday" + strings.Repeat("!", maxDetailBytes-len("back [2J on Monday"))}
	if !errors.As(err, &refused) || *refused != want {
		t.Errorf("got %v, want the refusal as it came, cut", err)
	}
	if !strings.Contains(err.Error(), "is not from a peer port") {
		t.Errorf("got %v, want a word of the port", err)
	}
}

func TestHello_ToOtherServer(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		want         error
	}{
		{"a web server", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<html", ErrMalformed},
		{"nobody in particular", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ErrMalformed},
		{"somebody with a long name", "HTTP/1.1 200 OK\r\nContent-Length: 409\r\n\r\n{\"id\":\"" + strings.Repeat("a", 400) + "\"}", ErrMalformed},
		{"somebody who will not end", "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat(" ", 3_000_000), ErrMalformed},
		{"somebody who breaks off", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", ErrDown},
	} {
		address := liar(t, func(conn net.Conn) { _, _ = io.WriteString(conn, c.answer) })
		if h, err := asker(t, nil).Hello(t.Context(), address, Hello{Cluster: testCluster, ID: "a"}); !errors.Is(err, c.want) {
			t.Errorf("%s: got %+v and %v, want %v", c.name, h, err, c.want)
		}
	}
}

func TestOtherClustersAreToldApart(t *testing.T) {
	s := newShelf(1, 100)
	address := start(t, serverOf(s))
	stranger := asker(t, func(cfg *ClientConfig) { cfg.Cluster = "job-b" })
	q, dst, _ := s.question(1, 10)
	var refused *RefusalError
	if err := stranger.Read(t.Context(), address, q, dst); !errors.As(err, &refused) || refused.Code != CodeOtherCluster {
		t.Errorf("read: got %v, want %s", err, CodeOtherCluster)
	}
	if _, err := stranger.Hello(t.Context(), address, Hello{Cluster: "job-b", ID: "a"}); !errors.As(err, &refused) || refused.Code != CodeOtherCluster {
		t.Errorf("hello: got %v, want %s", err, CodeOtherCluster)
	}
	if len(s.asked) != 0 {
		t.Error("a holder answered another cluster")
	}
}

func TestQuestionsThatDoNotFitTheirAnswer(t *testing.T) {
	client := asker(t, nil)
	q, dst, _ := newShelf(2, 100).question(2, 10)
	for _, wrong := range [][][]byte{nil, dst[:3], append(dst[:4:4], nil), {dst[0], dst[1], dst[2], dst[3][:9]}} {
		if err := client.Read(t.Context(), "127.0.0.1:1", q, wrong); !errors.Is(err, ErrQuestion) {
			t.Errorf("%d slices: got %v, want %v", len(wrong), err, ErrQuestion)
		}
	}
	for _, address := range []string{"", "127.0.0.1", "host:port:port"} {
		if err := client.Read(t.Context(), address, q, dst); !errors.Is(err, ErrQuestion) {
			t.Errorf("address %q: got %v, want %v", address, err, ErrQuestion)
		}
	}
	q.Chunks[1].Chunk = 0
	if err := client.Read(t.Context(), "127.0.0.1:1", q, dst); !errors.Is(err, ErrQuestion) {
		t.Errorf("a chunk twice: got %v, want %v", err, ErrQuestion)
	}
}

func TestRead_NoListener(t *testing.T) {
	ln := listen(t)
	_ = ln.Close()
	q, dst, _ := newShelf(1, 100).question(1, 10)
	if err := asker(t, nil).Read(t.Context(), ln.Addr().String(), q, dst); !errors.Is(err, ErrDown) {
		t.Errorf("got %v, want %v", err, ErrDown)
	}
}

// TestRestartsBetweenReadsAreNotNoticed: if the peer's previous process has closed the connections,
// the peer does not count as down.
func TestRestartsBetweenReadsAreNotNoticed(t *testing.T) {
	s := newShelf(1, 100)
	ln := listen(t)
	address := ln.Addr().String()
	client := asker(t, nil)
	q, dst, _ := s.question(1, 10)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- NewServer(serverOf(s)).Serve(ctx, ln) }()
		if err := client.Read(t.Context(), address, q, dst); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		var err error
		if ln, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", address); err != nil {
			t.Fatal(err)
		}
	}
	_ = ln.Close()
}

func TestManyPeersHaveFewReadsEach(t *testing.T) {
	for _, c := range []struct{ perPeer, peers, want int64 }{
		{64, 0, 64}, {64, 16, 64}, {64, 17, 60}, {64, 100, 10}, {64, 128, 8}, {64, 4096, 8}, {2, 1, 2}, {2, 100, 2},
	} {
		client := NewClient(ClientConfig{Cluster: "c", ID: "a", PerPeer: int(c.perPeer)})
		client.Expect(int(c.peers))
		if got := client.reads.most / client.share(); got != c.want {
			t.Errorf("%d peers, %d reads of one at most: got %d at a time, want %d", c.peers, c.perPeer, got, c.want)
		}
	}
}

func TestReadsOfOnePeerTakeTurns(t *testing.T) {
	s := newShelf(1, 100)
	var now, most atomic.Int32
	begun, end := make(chan struct{}, 20), make(chan struct{})
	s.answer = func(context.Context, *Query) error {
		most.Store(max(most.Load(), now.Add(1)))
		begun <- struct{}{}
		<-end
		now.Add(-1)
		return nil
	}
	slow, quick := start(t, serverOf(s)), start(t, serverOf(newShelf(1, 100)))
	client := asker(t, func(cfg *ClientConfig) { cfg.PerPeer = 2 })
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			q, dst, _ := s.question(1, 10)
			if err := client.Read(t.Context(), slow, q, dst); err != nil {
				t.Error(err)
			}
		})
	}
	<-begun
	<-begun
	q, dst, _ := s.question(1, 10)
	if err := client.Read(t.Context(), quick, q, dst); err != nil {
		t.Errorf("another peer meanwhile: %v", err)
	}
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Read(waiting, slow, q, dst); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a turn: got %v, want %v", err, context.Canceled)
	}
	close(end)
	wg.Wait()
	if got := most.Load(); got != 2 {
		t.Errorf("reads at a time: got %d, want 2", got)
	}
	if got := len(client.reads.open); got != 0 {
		t.Errorf("addresses remembered: got %d, want none", got)
	}
}

// TestFewConnectionsAreMadeAtATime: a cold start does not cause a burst of connections. Only a few
// connections to one peer are dialed at a time, while requests that have a connection proceed.
func TestFewConnectionsAreMadeAtATime(t *testing.T) {
	s := newShelf(1, 100)
	address := start(t, serverOf(s))
	client := asker(t, nil)
	var now, most atomic.Int32
	transport := client.transport.(*renewingTransport).current()
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		runtime.Gosched() // let the other goroutines dial meanwhile
		return dial(ctx, network, address)
	}
	begun, end := make(chan struct{}, 20), make(chan struct{})
	s.answer = func(context.Context, *Query) error {
		begun <- struct{}{}
		<-end
		return nil
	}
	var wg sync.WaitGroup
	for range cap(begun) {
		wg.Go(func() {
			q, dst, _ := s.question(1, 10)
			if err := client.Read(t.Context(), address, q, dst); err != nil {
				t.Error(err)
			}
		})
	}
	for range cap(begun) {
		<-begun // all requests arrive although none is answered yet
	}
	close(end)
	wg.Wait()
	if got := most.Load(); got < 1 || got > dialsAtOnce {
		t.Errorf("connections made at a time: got %d, want at most %d", got, dialsAtOnce)
	}
}

func TestRequests_Headers(t *testing.T) {
	var got http.Header
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		got = r.Header
		return nil, errors.New("unplugged")
	})
	client := NewClient(ClientConfig{Cluster: testCluster, ID: "a", Transport: transport})
	q, dst, _ := newShelf(1, 100).question(1, 10)
	if err := client.Read(t.Context(), "x:1", q, dst); !errors.Is(err, ErrDown) {
		t.Errorf("got %v, want %v", err, ErrDown)
	}
	for name, want := range map[string]string{
		ClusterHeader: testCluster, MemberHeader: "a", VersionHeader: "2", DeadlineHeader: "60000",
	} {
		if values := got.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("%s: got %q, want %q", name, values, want)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTransportsThatSendMoreThanTheySay simulates transports that send more or fewer bytes than
// their Content-Length.
func TestTransportsThatSendMoreThanTheySay(t *testing.T) {
	for _, c := range []struct {
		sent string
		want error
	}{{"0123456789", nil}, {"0123456789x", ErrMalformed}, {"012345678", ErrDown}, {"", ErrDown}} {
		transport := roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: 10, Body: io.NopCloser(strings.NewReader(c.sent))}, nil
		})
		q := &Query{Dataset: "d", Generation: "g", Chunks: []ChunkQuery{{Ranges: []Range{{Length: 4}, {Length: 6}}}}}
		dst := [][]byte{make([]byte, 4), make([]byte, 6)}
		err := NewClient(ClientConfig{Cluster: "x", ID: "a", Transport: transport}).Read(t.Context(), "x:1", q, dst)
		if !errors.Is(err, c.want) {
			t.Errorf("%q: got %v, want %v", c.sent, err, c.want)
		}
		if err == nil && (string(dst[0]) != "0123" || string(dst[1]) != "456789") {
			t.Errorf("got %q, want 0123 and 456789", dst)
		}
	}
}

// TestAskersThatGiveUpLeaveNothing: when an asker gives up, its connection ends, and so does
// everything that waits for it. The peer may be in any state.
func TestAskersThatGiveUpLeaveNothing(t *testing.T) {
	for _, said := range []string{
		"", "HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234",
		"HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\n{",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		bored := errors.New("bored")
		ended := make(chan struct{})
		address := liar(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, said)
			cancel(bored)
			_, _ = io.Copy(io.Discard, conn)
			close(ended)
		})
		client := asker(t, nil)
		q, dst, _ := newShelf(1, 100).question(1, 10)
		if err := client.Read(ctx, address, q, dst); !errors.Is(err, bored) || errors.Is(err, ErrDown) {
			t.Errorf("after %.20q: got %v, want %v", said, err, bored)
		}
		<-ended
		if got := len(client.reads.open); got != 0 {
			t.Errorf("after %.20q: got %d addresses with turns, want none", said, got)
		}
	}
}
