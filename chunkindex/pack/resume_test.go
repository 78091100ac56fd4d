package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

var errKilled = errors.New("killed")

// kill is a store in which the first n Puts succeed and all later Puts fail. uploads counts the
// shards among the successful Puts.
type kill struct {
	mu      sync.Mutex
	left    int
	uploads map[string]int
}

func (k *kill) before(key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left--; k.left < 0 {
		return errKilled
	}
	if strings.HasSuffix(key, ".tar") {
		k.uploads[key]++
	}
	return nil
}

func TestPack_ResumesAfterKillAtEachPut(t *testing.T) {
	dir := tree(t, photos(60))
	opt := Options{ShardSize: 40 << 10, Parallel: 1}
	whole := memstore.New()
	r := mustPack(t, whole, opt, dir)
	if r.Shards < 5 {
		t.Fatalf("got %d shards, want 5 or more", r.Shards)
	}
	// Before a run with one worker settles, it makes 1 + 2n Puts for n shards: the empty state,
	// then a shard and a note for each shard.
	for puts := range 1 + 2*r.Shards {
		t.Run(fmt.Sprint(puts), func(t *testing.T) {
			store := memstore.New()
			k := &kill{left: puts, uploads: map[string]int{}}
			if _, err := Pack(t.Context(), []string{dir}, &hooked{store, k.before}, "out", opt); !errors.Is(err, errKilled) {
				t.Fatalf("got %v, want %v", err, errKilled)
			}
			stored := len(k.uploads)
			k.left = 1 << 30
			opt := opt
			opt.Parallel = 4
			second, err := Pack(t.Context(), []string{dir}, &hooked{store, k.before}, "out", opt)
			if err != nil {
				t.Fatal(err)
			}
			if !same(shards(whole), shards(store)) {
				t.Error("the shards differ from those of a run that was not killed")
			}
			// One shard may be stored without its note, and another one while the note
			// is written.
			twice := 0
			for _, n := range k.uploads {
				twice += n - 1
			}
			if twice > 2 {
				t.Errorf("got %v, want at most two shards stored twice", k.uploads)
			}
			if want := stored - twice; second.ReusedShards != want {
				t.Errorf("got %d shards reused, want %d", second.ReusedShards, want)
			}
		})
	}
}

func TestSecondRunStoresNothing(t *testing.T) {
	dir, store := tree(t, photos(30)), memstore.New()
	opt := Options{ShardSize: 40 << 10}
	first := mustPack(t, store, opt, dir)
	k := &kill{uploads: map[string]int{}}
	second, err := Pack(t.Context(), []string{dir}, &hooked{store, k.before}, "out/", opt)
	if err != nil {
		t.Fatal(err)
	}
	first.ReusedShards = first.Shards
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
}

func TestPack_ResumeChecksStoredShards(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, dir string, store *memstore.Store)
		uploads int
	}{
		{"touched", func(t *testing.T, dir string, _ *memstore.Store) {
			now := time.Now().Add(time.Hour)
			if err := os.Chtimes(filepath.Join(dir, "a.txt"), now, now); err != nil {
				t.Fatal(err)
			}
		}, 0},
		{"rewritten in the same length", func(t *testing.T, dir string, _ *memstore.Store) {
			name := filepath.Join(dir, "a.txt")
			now := time.Now().Add(time.Hour)
			if err := errors.Join(os.WriteFile(name, []byte("54321"), 0o600), os.Chtimes(name, now, now)); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"shard deleted", func(t *testing.T, _ string, store *memstore.Store) {
			if err := store.Delete(t.Context(), "out/shard-000000.tar"); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"shard overwritten", func(_ *testing.T, _ string, store *memstore.Store) {
			old, _ := store.Bytes("out/shard-000000.tar")
			store.Set("out/shard-000000.tar", make([]byte, len(old)))
		}, 1},
		{"state torn", func(_ *testing.T, _ string, store *memstore.Store) {
			for _, key := range store.Keys() {
				if strings.Contains(key, own) {
					store.Set(key, []byte(`{"version":1,"sha`))
				}
			}
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tree(t, map[string]string{"a.txt": "12345", "b.txt": strings.Repeat("b", 2000)})
			opt, store := Options{ShardSize: 2600}, memstore.New()
			if r := mustPack(t, store, opt, dir); r.Shards != 2 {
				t.Fatalf("got %d shards, want 2", r.Shards)
			}
			c.change(t, dir, store)
			k := &kill{left: 100, uploads: map[string]int{}}
			if _, err := Pack(t.Context(), []string{dir}, &hooked{store, k.before}, "out", opt); err != nil {
				t.Fatal(err)
			}
			if len(k.uploads) != c.uploads {
				t.Errorf("got %v stored, want %d shards", k.uploads, c.uploads)
			}
			again := memstore.New()
			mustPack(t, again, opt, dir)
			if !same(shards(again), shards(store)) {
				t.Error("the shards differ from those of a run into an empty store")
			}
		})
	}
}

func TestOccupiedTargetIsRefused(t *testing.T) {
	dir := tree(t, photos(20))
	opt := Options{ShardSize: 40 << 10}
	store := memstore.New()
	store.Set("out/train-0000.tar", make([]byte, trailer))
	_, err := Pack(t.Context(), []string{dir}, store, "out", opt)
	if !errors.Is(err, ErrOccupied) || !strings.HasPrefix(err.Error(), "pack: out/train-0000.tar: ") {
		t.Errorf("got %v, want %v that names out/train-0000.tar", err, ErrOccupied)
	}
	if got := store.Stats().Requests[memstore.List]; got > 2 {
		t.Errorf("got %d listings before a run is refused, want at most 2", got)
	}

	store = memstore.New()
	mustPack(t, store, opt, dir)
	if err := os.WriteFile(filepath.Join(dir, "one-more.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := shards(store)
	if _, err := Pack(t.Context(), []string{dir}, store, "out", opt); !errors.Is(err, ErrOccupied) {
		t.Errorf("got %v, want %v", err, ErrOccupied)
	}
	if !same(before, shards(store)) {
		t.Error("a refused run changed the shards")
	}
}

func TestPack_RefusesForeignWrites(t *testing.T) {
	dir := tree(t, photos(60))
	for name, interfere := range map[string]func(*memstore.Store) error{
		"overwritten": func(s *memstore.Store) error { s.Set("out/shard-000000.tar", []byte("theirs")); return nil },
		"deleted":     func(s *memstore.Store) error { return s.Delete(t.Context(), "out/shard-000000.tar") },
	} {
		store := memstore.New()
		h := &hooked{store, func(key string) error {
			if strings.HasSuffix(key, "shard-000002.tar") {
				return interfere(store)
			}
			return nil
		}}
		_, err := Pack(t.Context(), []string{dir}, h, "out", Options{ShardSize: 40 << 10, Parallel: 1})
		if !errors.Is(err, objstore.ErrChanged) || !strings.Contains(err.Error(), "shard-000000.tar") {
			t.Errorf("%s: got %v, want %v that names shard-000000.tar", name, err, objstore.ErrChanged)
		}
	}
}

func TestPack_RecordsShardsWhenInterrupted(t *testing.T) {
	dir, store := tree(t, photos(60)), memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := &hooked{store, func(key string) error {
		if strings.HasSuffix(key, "shard-000003.tar") {
			cancel()
			return ctx.Err()
		}
		return nil
	}}
	opt := Options{ShardSize: 40 << 10, Parallel: 1}
	if _, err := Pack(ctx, []string{dir}, h, "out", opt); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if r := mustPack(t, store, opt, dir); r.ReusedShards != 3 {
		t.Errorf("got %d shards reused, want 3", r.ReusedShards)
	}
}

// TestPack_StopsWhenNoteCannotBeWritten checks that the run stops at the first note that cannot be
// written. Otherwise the next run would store later shards again.
func TestPack_StopsWhenNoteCannotBeWritten(t *testing.T) {
	dir, store := tree(t, photos(60)), memstore.New()
	states := 0
	h := &hooked{store, func(key string) error {
		if strings.HasSuffix(key, ".json") {
			if states++; states > 2 {
				return errKilled
			}
		}
		return nil
	}}
	_, err := Pack(t.Context(), []string{dir}, h, "out", Options{ShardSize: 40 << 10, Parallel: 1})
	if !errors.Is(err, errKilled) || errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want only %v", err, errKilled)
	}
	// One shard is in the last note, another in the refused note, and a third may have been
	// stored meanwhile.
	if got := len(shards(store)); got < 2 || got > 3 {
		t.Errorf("got %d shards stored, want two or three", got)
	}
}

// sized is a store that counts the bytes of states and notes.
type sized struct {
	objstore.Store
	mu    sync.Mutex
	bytes int64
}

func (s *sized) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	if strings.HasSuffix(key, ".json") {
		s.mu.Lock()
		s.bytes += size
		s.mu.Unlock()
	}
	return s.Store.Put(ctx, key, body, size, cond)
}

// TestPack_WritesEachEntryTwice checks that each shard's entry is written twice, in a note and in
// the state, for any number of shards. Only one object remains.
func TestPack_WritesEachEntryTwice(t *testing.T) {
	dir, mem := tree(t, photos(60)), memstore.New()
	store := &sized{Store: mem}
	r, err := Pack(t.Context(), []string{dir}, store, "", Options{ShardSize: 6 << 10, Parallel: 1})
	if err != nil || r.Shards < 40 {
		t.Fatalf("got %+v, %v, want many shards", r, err)
	}
	var states []string
	for _, key := range mem.Keys() {
		if strings.HasSuffix(key, ".json") {
			states = append(states, key)
		}
	}
	if len(states) != 1 {
		t.Fatalf("got %v, want only the state", states)
	}
	if b, _ := mem.Bytes(states[0]); store.bytes > 3*int64(len(b)) {
		t.Errorf("got %d bytes written for a state of %d", store.bytes, len(b))
	}
}
