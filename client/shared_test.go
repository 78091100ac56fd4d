//go:build linux

package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/shared"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// socketPath returns a short path for a socket: the test's own directory may be too long.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "socket")
}

// sharing starts a gateway at a Unix socket that shares memory within a budget.
func sharing(t *testing.T, total int64) (address string, pool *shared.Pool) {
	t.Helper()
	leaks.Check(t)
	t.Cleanup(func() {
		if n := mappings(t, "memfd:millrace "); n > 0 {
			t.Errorf("%d pieces of memory are still mapped", n)
		}
	})
	cfg := gateway.Config{Budget: budget.New(total, time.Second), LameDuck: time.Millisecond}
	var err error
	if pool, err = shared.New(cfg.Budget); err != nil {
		t.Fatal(err)
	}
	cfg.Shared = pool
	g := newReal(t, newStored(t), cfg)
	path := socketPath(t)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 2)
	go func() { pool.Run(ctx); served <- nil }()
	go func() { served <- gateway.NewServer(g.Gateway, gateway.ServerConfig{}).Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
		pool.Close()
	})
	return "unix:" + path, pool
}

// await waits until a condition is met.
func await(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !met(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestSharedMemory reads epochs from shared memory, and compares every property of a batch with the
// same batch sent as bytes.
func TestSharedMemory(t *testing.T) {
	address, pool := sharing(t, 64<<20)
	c := newClient(t, client.Config{Gateways: []string{address}, SharedMemory: true})
	plain := newClient(t, client.Config{Gateways: []string{address}})
	opt := client.Options{Format: "framed", Table: "keys,parts", BatchSize: 20}
	batches := int64(0)
	for opt.Epoch = range 16 {
		for b, err := range c.Batches(t.Context(), opt) {
			if err != nil {
				t.Fatal(err)
			}
			batches++
			want, err := plain.Batch(t.Context(), opt, b.Number)
			if err != nil {
				t.Fatal(err)
			}
			if !b.Shared() || want.Shared() {
				t.Fatalf("got memory: %v, and without asking: %v", b.Shared(), want.Shared())
			}
			if !bytes.Equal(b.Bytes(), want.Bytes()) || b.CRC != want.CRC || b.ContentType != want.ContentType || b.Samples() != want.Samples() {
				t.Fatalf("epoch %d batch %d is another one", b.Epoch, b.Number)
			}
			for i := range want.Samples() {
				part, found := b.Part(i, "bin")
				wantPart, _ := want.Part(i, "bin")
				if !bytes.Equal(b.Sample(i), want.Sample(i)) || b.Key(i) != want.Key(i) || !found || !bytes.Equal(part, wantPart) || len(part) < 3000 {
					t.Fatalf("epoch %d batch %d sample %d is another one", b.Epoch, b.Number, i)
				}
			}
			if _, found := b.Part(0, "txt"); found {
				t.Error("a part was found that no sample has")
			}
			b.Close()
			b.Close()
		}
	}
	s := pool.Stats()
	if s.Leases != batches || int64(s.Segments) > batches/2 { // on a busy machine there may be more connections than concurrent requests
		t.Errorf("got %+v after %d batches: what was let go is not used again", s, batches)
	}
	c.CloseIdle()
	await(t, "the gateway has nothing lent", func() bool { s := pool.Stats(); return s.Lent == 0 && s.Segments == 0 })
}

// TestSharedMemory_ResumesWithinABatch reads the rest of a batch from shared memory.
func TestSharedMemory_ResumesWithinABatch(t *testing.T) {
	address, _ := sharing(t, 64<<20)
	c := newClient(t, client.Config{Gateways: []string{address}, SharedMemory: true})
	opt, err := c.Resume(t.Context(), client.Options{Format: "framed", BatchSize: 20}, client.State{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := c.Batch(t.Context(), opt, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if opt, err = c.Resume(t.Context(), opt, opt.AfterSample(whole, 4)); err != nil {
		t.Fatal(err)
	}
	rest, err := c.Batch(t.Context(), opt, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if !rest.Shared() || rest.Samples() != 15 || opt.From != 1 {
		t.Fatalf("got %d samples from batch %d on, in memory: %v; want 15 from batch 1", rest.Samples(), opt.From, rest.Shared())
	}
	for i := range rest.Samples() {
		if !bytes.Equal(rest.Sample(i), whole.Sample(i+5)) {
			t.Errorf("sample %d differs from sample %d of the whole batch", i, i+5)
		}
	}
	if state := opt.AfterSample(rest, 1); state.Position != 27 || opt.After(rest).Position != 40 {
		t.Errorf("got position %d after two more samples, and %d after the batch, want 27 and 40", state.Position, opt.After(rest).Position)
	}
}

// TestSharedMemoryStays: a batch stays valid until it is closed. Afterwards its methods panic.
func TestSharedMemoryStays(t *testing.T) {
	address, _ := sharing(t, 64<<20)
	c := newClient(t, client.Config{Gateways: []string{address}, SharedMemory: true})
	opt := client.Options{Format: "framed", BatchSize: 20}
	held, err := c.Batch(t.Context(), opt, 0)
	if err != nil || !held.Shared() {
		t.Fatal(held, err)
	}
	before := held.Bytes()
	for opt.Epoch = range 30 {
		for b, err := range c.Batches(t.Context(), opt) {
			if err != nil {
				t.Fatal(err)
			}
			b.Close()
		}
	}
	c.CloseIdle() // a batch remains valid after its connection is closed
	if !bytes.Equal(held.Bytes(), before) || !bytes.HasSuffix(before, held.Sample(19)) {
		t.Error("a batch changed while it was held")
	}
	held.Close()
	for what, use := range map[string]func(){"Sample": func() { held.Sample(0) }, "Bytes": func() { held.Bytes() }} {
		func() {
			defer func() {
				if said := recover(); said == nil || !strings.Contains(fmt.Sprint(said), "closed") {
					t.Errorf("%s of a closed batch: got %v, want a panic that says so", what, said)
				}
			}()
			use()
		}()
	}
}

// TestSharedMemoryOfThoseWhoForget: a reader that never closes batches gets bytes instead. Memory
// that was not read is released.
func TestSharedMemoryOfThoseWhoForget(t *testing.T) {
	address, pool := sharing(t, 8<<20)
	c := newClient(t, client.Config{Gateways: []string{address}, SharedMemory: true})
	opt := client.Options{Format: "framed", BatchSize: 20}
	var all []*client.Batch
	inMemory := 0
	for opt.Epoch = range 40 {
		for b, err := range c.Batches(t.Context(), opt) {
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, b); b.Shared() {
				inMemory++
			}
			await(t, "the others have been asked for", func() bool { s := pool.Stats(); return s.Leases+s.Refused >= 3*int64(opt.Epoch+1) })
			break
		}
	}
	if inMemory == 0 || inMemory == len(all) {
		t.Fatalf("got %d of %d batches in memory, want some", inMemory, len(all))
	}
	for _, b := range all {
		if len(b.Sample(19)) < 3000 {
			t.Error("a batch has lost its samples")
		}
		b.Close()
	}
	c.CloseIdle()
	await(t, "the gateway has nothing lent", func() bool { s := pool.Stats(); return s.Lent == 0 && s.Segments == 0 })
}

// TestBytesWithoutSharedMemory: without shared memory batches are sent as bytes, and Close does
// nothing.
func TestBytesWithoutSharedMemory(t *testing.T) {
	address, pool := sharing(t, 64<<20)
	c := newClient(t, client.Config{Gateways: []string{address}, SharedMemory: true})
	far := newClient(t, client.Config{Gateways: []string{newReal(t, newStored(t), gateway.Config{}).url}, SharedMemory: true})
	for name, read := range map[string]struct {
		c   *client.Client
		opt client.Options
	}{
		"another form":  {c, client.Options{BatchSize: 20}},
		"a small batch": {c, client.Options{BatchSize: 2, Format: "framed"}},
		"over TCP":      {far, client.Options{BatchSize: 20, Format: "framed"}},
	} {
		b, err := read.c.Batch(t.Context(), read.opt, 0)
		if err != nil || b.Shared() || len(b.Bytes()) == 0 {
			t.Errorf("%s: got %v, %v, want bytes", name, b, err)
			continue
		}
		b.Close()
		if len(b.Bytes()) == 0 {
			t.Errorf("%s: Close took the bytes", name)
		}
	}
	if s := pool.Stats(); s.Leases != 0 {
		t.Errorf("got %+v, want nothing lent", s)
	}
}

// TestSocketOfSomebodyElse: the client does not connect to a socket of another user.
func TestSocketOfSomebodyElse(t *testing.T) {
	path := socketPath(t)
	dir := filepath.Dir(path)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(ln, &fake{batches: 4, generation: "g1"}) }()
	t.Cleanup(func() { ln.Close() })
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(at string) error {
		c := newClient(t, client.Config{Gateways: []string{"unix:" + at}})
		_, err := c.Batch(t.Context(), client.Options{}, 0)
		return err
	}
	if err := read(path); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{link, file} {
		if err := read(at); err == nil || !strings.Contains(err.Error(), at+" is not a socket") {
			t.Errorf("%s: got %v, want that it is no socket", at, err)
		}
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := read(path); err != nil {
		t.Errorf("a socket of our own: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Log("only root can give a socket to somebody else")
		return
	}
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if err := read(path); err == nil || !strings.Contains(err.Error(), path+" belongs to the user 12345") {
		t.Errorf("got %v, want that the socket belongs to somebody else", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := read(path); err != nil {
		t.Errorf("somebody else's socket where only we may put one: %v", err)
	}
}

// TestFramedLies: no wrong number in a table makes the client read outside the batch.
func TestFramedLies(t *testing.T) {
	address, _ := sharing(t, 64<<20)
	c := newClient(t, client.Config{Gateways: []string{address}})
	b, err := c.Batch(t.Context(), client.Options{Format: "framed", Table: "keys,parts", BatchSize: 4}, 0)
	if err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	if err := client.ReadFrame(whole, 4); err != nil {
		t.Fatal(err)
	}
	refused := 0
	table := int(binary.LittleEndian.Uint32(whole[28:]))
	for at := range table {
		for _, other := range []byte{0, 1, 0x7f, 0xff} {
			damaged := bytes.Clone(whole)
			damaged[at] = other
			if client.ReadFrame(damaged, 4) != nil {
				refused++
			}
		}
	}
	for n := range table {
		if client.ReadFrame(whole[:n], 4) == nil {
			t.Errorf("%d bytes of a table of %d were taken", n, table)
		}
	}
	if refused < table { // keys, names and zeros may have any value
		t.Errorf("got %d of %d damaged tables refused", refused, 4*table)
	}
}
