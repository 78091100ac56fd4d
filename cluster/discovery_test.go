package cluster

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/internal/bubble"
)

func TestParseJoin(t *testing.T) {
	for text, want := range map[string]Join{
		"static:gw-0, gw-1:9000,,10.0.0.3": {SchemeStatic, []string{"gw-0:7946", "gw-1:9000", "10.0.0.3:7946"}},
		"static:[::1],fd00::2,[fd00::3]:9": {SchemeStatic, []string{"[::1]:7946", "[fd00::2]:7946", "[fd00::3]:9"}},
		"dns:gateways.job-a.svc:9000":      {SchemeDNS, []string{"gateways.job-a.svc:9000"}},
		"dns:gateways":                     {SchemeDNS, []string{"gateways:7946"}},
		"gossip:seed-0,seed-1:9":           {SchemeGossip, []string{"seed-0:7947", "seed-1:9"}},
		"gossip:":                          {SchemeGossip, nil},
	} {
		got, err := ParseJoin(text)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := ParseJoin(got.String()); err != nil || !cmp.Equal(again, want) {
			t.Errorf("%s: got %+v, %v when it is read again, want %+v", got, again, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                   "want static:",
		"gw-0,gw-1":          "want static:",
		"consul:gateways":    "want static:",
		"static:":            "names no host",
		"static:,":           "names no host",
		"dns:":               "names no host",
		"dns:a,b":            "want one name",
		"static:gw-0:http":   "want a port",
		"static:gw-0:0":      "want a port",
		"static:gw-0:65536":  "want a port",
		"static:0.0.0.0":     "nobody can be reached there",
		"static:http://gw-0": "want",
		"static:user@gw-0":   "want a host",
		"static::7946":       "want a host",
	} {
		if got, err := ParseJoin(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %q", text, got, err, want)
		}
	}
}

func TestNamesAreNames(t *testing.T) {
	for _, name := range []string{"job-a", "gw_0.example", "A~b+c", strings.Repeat("a", 128)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: got %v, want it taken", name, err)
		}
	}
	for _, name := range []string{"", "a b", "a/b", "a\n", "å", `a"b`, `a\b`, "\x00", strings.Repeat("a", 129)} {
		if err := CheckName(name); err == nil {
			t.Errorf("%q: got it taken, want it refused", name)
		}
	}
}

func TestKeys(t *testing.T) {
	key := []byte("0123456789abcdef0123456789ABCDE\xff")
	dir := t.TempDir()
	write := func(text string) string {
		name := filepath.Join(dir, "key")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, n := range []int{16, 24, 32} {
		for _, text := range []string{
			string(key[32-n:]), hex.EncodeToString(key[32-n:]), hex.EncodeToString(key[32-n:]) + "\n", base64.StdEncoding.EncodeToString(key[32-n:]),
			" " + base64.StdEncoding.EncodeToString(key[32-n:]) + "\r\n",
		} {
			if got, err := ReadKey(write(text)); err != nil || string(got) != string(key[32-n:]) {
				t.Errorf("%q: got %q, %v, want %q", text, got, err, key[32-n:])
			}
		}
	}
	for _, text := range []string{"", "short", strings.Repeat("ab", 20), base64.StdEncoding.EncodeToString(key[:20])} {
		if got, err := ReadKey(write(text)); err == nil || !strings.Contains(err.Error(), "want 16, 24 or 32") {
			t.Errorf("%q: got %q, %v, want it refused", text, got, err)
		} else if strings.Contains(err.Error(), "ab") && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("got %v, which shows the key", err)
		}
	}
	if _, err := ReadKey(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}

// book is a name service.
type book struct {
	mu  sync.Mutex
	of  map[string][]string
	err error
}

func (b *book) LookupHost(_ context.Context, host string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[host], b.err
}

func (b *book) set(host string, addresses []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	if err == nil {
		b.of[host] = addresses
	}
}

func TestNamesAreLookedUpAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := &book{of: map[string][]string{"gateways": {"10.0.0.2", "10.0.0.1"}, "other": {"fd00::1"}}}
		n := &Names{Targets: []string{"gateways:7946", "other:9", "10.0.0.9:7946", "10.0.0.1:7946"}, Resolver: b, Log: zerolog.Nop()}
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var last []string
		calls := 0
		var all sync.WaitGroup
		all.Go(func() {
			err := n.Run(ctx, func(found []string) {
				mu.Lock()
				defer mu.Unlock()
				last, calls = found, calls+1
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
		})
		fixed := []string{"10.0.0.9:7946", "[fd00::1]:9"}
		check := func(when string, wait time.Duration, wantCalls int, want ...string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			want = append(want, fixed...)
			slices.Sort(want)
			if !slices.Equal(last, want) || calls != wantCalls {
				t.Errorf("%s: got %v after %d calls, want %v after %d", when, last, calls, want, wantCalls)
			}
		}
		check("at first", time.Second, 1, "10.0.0.1:7946", "10.0.0.2:7946")
		check("unchanged", time.Minute, 1, "10.0.0.1:7946", "10.0.0.2:7946")
		b.set("gateways", []string{"10.0.0.2", "10.0.0.3"}, nil)
		check("changed", resolveEvery, 2, "10.0.0.1:7946", "10.0.0.2:7946", "10.0.0.3:7946") // .1 is listed by itself
		b.set("", nil, errors.New("server misbehaving"))
		check("failing", keepResolved-10*time.Second, 2, "10.0.0.1:7946", "10.0.0.2:7946", "10.0.0.3:7946")
		fixed = []string{"10.0.0.9:7946"}
		check("failing for long", 20*time.Second, 3, "10.0.0.1:7946")
		fixed = append(fixed, "[fd00::1]:9")
		b.set("gateways", []string{"10.0.0.4"}, nil)
		check("back", resolveEvery, 4, "10.0.0.1:7946", "10.0.0.4:7946")
		cancel()
		all.Wait()
	})
}

// gossip starts one and returns what it finds, the last at any time.
func gossip(t *testing.T, i int, seeds []string, change func(*Gossip)) (address string, found <-chan []string, end func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free, for a moment
	if err != nil {
		t.Fatal(err)
	}
	address = ln.Addr().String()
	ln.Close()
	g := &Gossip{
		Listen: address, Seeds: seeds, Cluster: "job-a", ID: fmt.Sprintf("gw-%d", i), Boot: "b", Address: at(i), Log: zerolog.Nop(),
	}
	if change != nil {
		change(g)
	}
	ctx, cancel := context.WithCancel(t.Context())
	all := make(chan []string, 1000)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := g.Run(ctx, func(a []string) { all <- a }); !errors.Is(err, context.Canceled) {
			t.Errorf("gossip of gw-%d: got %v, want %v", i, err, context.Canceled)
		}
	}()
	end = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(end)
	return address, all, end
}

// until waits for one finding.
func until(t *testing.T, found <-chan []string, want ...string) {
	t.Helper()
	var last []string
	for {
		select {
		case last = <-found:
			if slices.Equal(last, want) {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("got %v, want %v", last, want)
		case <-time.After(time.Minute):
			t.Fatalf("got %v, want %v", last, want)
		}
	}
}

// nobody checks that nobody has been found.
func nobody(t *testing.T, found <-chan []string) {
	t.Helper()
	for len(found) > 0 {
		if got := <-found; len(got) > 0 {
			t.Errorf("got %v found, want nobody", got)
		}
	}
}

// A real gossip on loopback: three find each other from one seed, one goes, and another cluster's is passed over.
func TestGossip(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(g *Gossip) { g.KeyFile = key }
	seed, first, _ := gossip(t, 0, nil, with)
	_, second, _ := gossip(t, 1, []string{seed}, with)
	_, third, end := gossip(t, 2, []string{seed}, with)
	_, stranger, _ := gossip(t, 3, []string{seed}, func(g *Gossip) { g.KeyFile, g.Cluster = key, "job-b" })
	until(t, first, at(1), at(2))
	until(t, second, at(0), at(2))
	until(t, third, at(0), at(1))
	end()
	until(t, first, at(1))
	until(t, second, at(0))
	until(t, stranger)
	nobody(t, stranger)
}

// A gossip with another key finds nobody, and says so on both sides.
func TestGossipWithAWrongKey(t *testing.T) {
	dir := t.TempDir()
	keyed := func(b byte, log io.Writer) func(*Gossip) {
		name := filepath.Join(dir, fmt.Sprint(b))
		if err := os.WriteFile(name, slices.Repeat([]byte{b}, 32), 0o600); err != nil {
			t.Fatal(err)
		}
		return func(g *Gossip) { g.KeyFile, g.Log = name, zerolog.New(log).Level(zerolog.WarnLevel) }
	}
	out, in := io.Pipe()
	out2, in2 := io.Pipe()
	for _, p := range []*io.PipeReader{out, out2} {
		defer p.Close()
	}
	seed, first, _ := gossip(t, 0, nil, keyed(1, in))
	_, second, _ := gossip(t, 1, []string{seed}, keyed(2, in2))
	for i, from := range []io.Reader{out, out2} {
		line := make([]byte, 4096)
		n, err := from.Read(line)
		if text := string(line[:n]); err != nil || !strings.Contains(text, "give every gateway of the cluster the same --gossip-key-file") ||
			!strings.Contains(text, filepath.Join(dir, fmt.Sprint(i+1))) {
			t.Errorf("got %s, %v, want which key does not fit", text, err)
		}
	}
	nobody(t, first)
	nobody(t, second)
}

func TestGossipThatCannotStart(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, tc := range []struct {
		g    Gossip
		want string
	}{
		{Gossip{Listen: ln.Addr().String()}, "address already in use"},
		{Gossip{Listen: "7947"}, "want HOST:PORT"},
		{Gossip{Listen: "gw-0:7947"}, "want an IP address"},
		{Gossip{Listen: "127.0.0.1:0", KeyFile: "/nowhere"}, "no such file"},
		{Gossip{Listen: "127.0.0.1:0", Address: strings.Repeat("a", 600)}, "want at most 512"},
	} {
		tc.g.Log = zerolog.Nop()
		if err := tc.g.Run(t.Context(), func([]string) {}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got %v, want %q", tc.g, err, tc.want)
		}
	}
}
