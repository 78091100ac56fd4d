package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

func TestParseJoin(t *testing.T) {
	for text, want := range map[string]Join{
		"gw-0, gw-1:9000,,10.0.0.3":      {SchemeList, []string{"gw-0:7946", "gw-1:9000", "10.0.0.3:7946"}},
		"[::1],fd00::2,[fd00::3]:9":      {SchemeList, []string{"[::1]:7946", "[fd00::2]:7946", "[fd00::3]:9"}},
		"dns:gateways.job-a.svc:9000":    {SchemeDNS, []string{"gateways.job-a.svc:9000"}},
		"dns:gateways":                   {SchemeDNS, []string{"gateways:7946"}},
		"srv:_peer._tcp.gateways.job-a":  {SchemeSRV, []string{"_peer._tcp.gateways.job-a"}},
		"file:/etc/millrace/gateways:1,": {SchemeFile, []string{"/etc/millrace/gateways:1,"}},
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
		"":                "it contains no host; use HOST:PORT",
		"consul:gateways": "the port must be 1 to 65535; use HOST:PORT",
		",":               "it contains no host",
		"dns:":            "it contains no host",
		"srv:":            "it contains no host",
		"file:":           "it contains no host",
		"dns:a,b":         "must be one name",
		"gw-0:http":       "the port must be 1 to 65535",
		"gw-0:0":          "the port must be 1 to 65535",
		"gw-0:65536":      "the port must be 1 to 65535",
		"0.0.0.0":         "an unspecified IP address cannot be reached",
		"http://gw-0":     "the port must be",
		"user@gw-0":       "the host is missing or invalid",
		":7946":           "the host is missing or invalid",
	} {
		if got, err := ParseJoin(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %q", text, got, err, want)
		}
	}
}

// book is a fake DNS server.
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

func (b *book) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if service != "" || proto != "" {
		return "", nil, fmt.Errorf("got service %q and protocol %q, want a name alone", service, proto)
	}
	var all []*net.SRV
	for i, host := range b.of[name] {
		all = append(all, &net.SRV{Target: host, Port: uint16(9000 + i)})
	}
	return "", all, b.err
}

// looking runs Names in a bubble. check waits, then compares the last addresses, and the number of
// calls with addresses, with the expected ones.
func looking(t *testing.T, where Join, b *book, log io.Writer) (n *Names, check func(when string, wait time.Duration, wantCalls int, want ...string), end func()) {
	t.Helper()
	n = New(where, zerolog.New(log))
	n.Resolver = b
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
	return n, func(when string, wait time.Duration, wantCalls int, want ...string) {
		t.Helper()
		time.Sleep(wait)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(last, want) || calls != wantCalls {
			t.Errorf("%s: got %v after %d calls, want %v after %d", when, last, calls, want, wantCalls)
		}
	}, func() { cancel(); all.Wait() }
}

func TestNamesAreLookedUpAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := &book{of: map[string][]string{"gateways": {"10.0.0.2", "10.0.0.1"}, "other": {"fd00::1"}}}
		var log bytes.Buffer
		_, check, end := looking(t, Join{SchemeList, []string{"gateways:7946", "other:9", "10.0.0.9:7946", "10.0.0.1:7946"}}, b, &log)
		defer end()
		check("at first", time.Second, 1, "10.0.0.1:7946", "10.0.0.2:7946", "10.0.0.9:7946", "[fd00::1]:9")
		check("unchanged", time.Minute, 1, "10.0.0.1:7946", "10.0.0.2:7946", "10.0.0.9:7946", "[fd00::1]:9")
		b.set("gateways", []string{"10.0.0.2", "10.0.0.3"}, nil) // the list itself contains .1
		check("changed", resolveEvery, 2, "10.0.0.1:7946", "10.0.0.2:7946", "10.0.0.3:7946", "10.0.0.9:7946", "[fd00::1]:9")
		b.set("", nil, errors.New("server misbehaving"))
		check("failing", time.Hour, 2, "10.0.0.1:7946", "10.0.0.2:7946", "10.0.0.3:7946", "10.0.0.9:7946", "[fd00::1]:9")
		b.set("gateways", []string{"10.0.0.4"}, nil)
		check("back", resolveEvery, 3, "10.0.0.1:7946", "10.0.0.4:7946", "10.0.0.9:7946", "[fd00::1]:9")
		if got := strings.Count(log.String(), "server misbehaving"); got != 2 {
			t.Errorf("an hour without a name service: got %d lines, want one for each of two names: %s", got, log.String())
		}
	})
}

// TestAgainLooksSooner: Again causes an earlier lookup. However often it is called, at most one
// lookup takes place per resolveApart.
func TestAgainLooksSooner(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := &book{of: map[string][]string{"gateways": {"10.0.0.1"}}}
		n, check, end := looking(t, Join{SchemeDNS, []string{"gateways:7946"}}, b, io.Discard)
		defer end()
		check("at first", 3*time.Second, 1, "10.0.0.1:7946")
		b.set("gateways", []string{"10.0.0.2"}, nil)
		n.Again()
		check("asked", 0, 2, "10.0.0.2:7946")
		b.set("gateways", []string{"10.0.0.3"}, nil)
		for range 100 {
			n.Again()
			time.Sleep(time.Millisecond)
		}
		check("asked a hundred times", 899*time.Millisecond, 2, "10.0.0.2:7946")
		check("asked a hundred times, a second after the last look-up", time.Millisecond, 3, "10.0.0.3:7946")
		b.set("gateways", []string{"10.0.0.4"}, nil)
		check("not asked", resolveEvery-time.Millisecond, 3, "10.0.0.3:7946")
		check("not asked, in its turn", time.Millisecond, 4, "10.0.0.4:7946")
	})
}

// TestServicesAreLookedUp: SRV records name hosts and ports. The hosts are resolved like those of a
// list.
func TestServicesAreLookedUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := &book{of: map[string][]string{"_peer._tcp.job": {"gw-0.job.", "gw-1.job."}, "gw-0.job": {"10.0.0.1"}, "gw-1.job": {"10.0.0.2"}, "gw-2.job": {"10.0.0.3"}}}
		_, check, end := looking(t, Join{SchemeSRV, []string{"_peer._tcp.job"}}, b, io.Discard)
		defer end()
		check("at first", time.Second, 1, "10.0.0.1:9000", "10.0.0.2:9001")
		b.set("_peer._tcp.job", []string{"gw-0.job.", "gw-2.job."}, nil)
		check("changed", resolveEvery, 2, "10.0.0.1:9000", "10.0.0.3:9001")
		b.set("", nil, errors.New("server misbehaving"))
		check("failing", time.Hour, 2, "10.0.0.1:9000", "10.0.0.3:9001")
	})
}

// TestListsThatAreNone: ReadList returns an error for a file that it cannot read completely, and
// for anything that is not a regular file. It never blocks.
func TestListsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no pipes here: %v", err)
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString("gw-0:1\n"); err != nil {
		t.Fatal(err)
	}
	closing := time.AfterFunc(time.Second, func() { writer.Close() }) // ends a ReadList that waits for the writer
	defer writer.Close()
	defer closing.Stop()
	if err := os.WriteFile(large, bytes.Repeat([]byte("#"), mostList+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{pipe, large, dir, filepath.Join(dir, "missing")} {
		if all, err := ReadList(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %q and %v, want an error that names it", file, all, err)
		}
	}
}

// TestFilesAreReadAgain: a file is read again when it changes. A file that cannot be read, or that
// has an invalid line, changes nothing; the log names it.
func TestFilesAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateways")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bubble.Test(t, func(t *testing.T) {
		b := &book{of: map[string][]string{"gw-1": {"10.0.0.2"}}}
		var log bytes.Buffer
		write("# the gateways of job-a\n10.0.0.1:9\n\ngw-1 # in the next room\n")
		_, check, end := looking(t, Join{SchemeFile, []string{file}}, b, &log)
		defer end()
		check("at first", time.Second, 1, "10.0.0.1:9", "10.0.0.2:7946")
		write("10.0.0.1:9\n10.0.0.3, 10.0.0.4\r\n")
		check("changed", resolveEvery, 2, "10.0.0.1:9", "10.0.0.3:7946", "10.0.0.4:7946")
		write("10.0.0.1:9\n10.0.0.3:none\n")
		check("wrong", time.Minute, 2, "10.0.0.1:9", "10.0.0.3:7946", "10.0.0.4:7946")
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, file+": line 2: ") || !strings.Contains(got, "10.0.0.3:none") {
			t.Errorf("got %q, want one line with the file's name, the line's number and the error", got)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		check("gone", time.Minute, 2, "10.0.0.1:9", "10.0.0.3:7946", "10.0.0.4:7946")
		write("10.0.0.5")
		check("back", resolveEvery, 3, "10.0.0.5:7946")
	})
}
