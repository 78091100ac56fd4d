package diskcache

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// The file system calls that tests make fail.
const (
	stepCreate step = "create"
	stepWrite  step = "write"
	stepSync   step = "sync"
	stepClose  step = "close"
	stepRename step = "rename"
	stepRemove step = "remove"
	stepMkdir  step = "mkdir"
	stepOpen   step = "open"
	stepRead   step = "read"
)

// faulty makes selected file system calls fail.
type faulty struct {
	mu    sync.Mutex // guards calls
	calls int
	fails func(call int, s step) error
	part  int
}

func (f *faulty) ask(s step, _ string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	return f.part, f.fails(f.calls, s)
}

// workload writes more chunks than fit, reads them, and damages one, so that every kind of call is
// made.
func workload(t *testing.T, c *Cache, dir string) {
	const n = 3000
	for i := range 6 {
		key, data := chunkOf(i, n)
		c.Write(t.Context(), key, uint64(i), data)
	}
	if files := chunkFiles(t, dir); len(files) > 0 {
		for p := range files {
			if err := os.Truncate(p, 100); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	for i := range 6 {
		key, data := chunkOf(i, n)
		dst := make([]byte, n)
		if c.Read(t.Context(), key, dst) && string(dst) != string(data) {
			t.Errorf("read chunk %d: got other bytes than were written", i)
		}
	}
}

// byNumber returns a next use that is much sooner for chunks with higher numbers.
func byNumber(ref uint64) time.Duration { return time.Hour >> (2 * ref) }

// TestFaultAtEveryCall makes each file system call fail in turn: alone or with all later calls,
// with each error, and after different parts of a write. No wrong byte is served, and no file
// remains that is not in the list. After the fault the cache works again, also after a restart.
func TestFaultAtEveryCall(t *testing.T) {
	leaks.Check(t)
	for name, fault := range map[string]struct {
		err  error
		part int
		last bool // all later calls fail too
	}{
		"full once":          {syscall.ENOSPC, 1000, false},
		"full from then on":  {syscall.ENOSPC, 0, true},
		"error after all":    {syscall.EIO, 3000, false},
		"errors":             {syscall.EIO, 0, true},
		"read-only for ever": {syscall.EROFS, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := 1
			for faultAt(t, at, fault.err, fault.part, fault.last) {
				at++
			}
			if at < 50 {
				t.Errorf("got %d calls, want all of a workload", at)
			}
		})
	}
}

// faultAt runs the workload with a fault at call number at, and reports whether the workload made
// that many calls.
func faultAt(t *testing.T, at int, fault error, part int, last bool) (reached bool) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := Config{Dir: dir, MaxBytes: 4 * block}
		c := opened(t, cfg, byNumber)
		f := &faulty{part: part}
		f.fails = func(call int, _ step) error {
			if call == at || last && call > at {
				reached = true
				return fault
			}
			return nil
		}
		c.disk.fault = f.ask
		workload(t, c, dir)
		f.fails = func(int, step) error { return nil }
		s := c.Stats()
		if reached && s.ReadErrors+s.WriteErrors == 0 {
			t.Errorf("%v at call %d: got %+v, want it counted", fault, at, s)
		}
		time.Sleep(2 * longPause) // fake time: the disk is tried again by then
		key, data := chunkOf(9, 3000)
		if !c.Write(t.Context(), key, 9, data) {
			t.Errorf("%v at call %d: got no write after it, want one: %+v", fault, at, c.Stats())
		}
		wantThere(t, c, 9, 3000, true)
		bytes := c.Stats().Bytes
		c.Close()
		c = opened(t, cfg, byNumber)
		defer c.Close()
		if s := c.Stats(); s.Bytes > bytes || s.Bytes > cfg.MaxBytes {
			t.Errorf("%v at call %d: got %d bytes after a restart, want the %d of before at most", fault, at, s.Bytes, bytes)
		}
		wantThere(t, c, 9, 3000, true)
	})
	return reached
}

// A file is renamed to its final name only after its bytes and footer are synced.
func TestFileIsNamedLast(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	defer c.Close()
	key, data := chunkOf(1, 100)
	file := filepath.Join(dir, filepath.FromSlash(key.name().file()))
	var steps []step
	c.disk.fault = func(s step, _ string) (int, error) {
		steps = append(steps, s)
		if _, err := os.Stat(file); err == nil {
			t.Errorf("before %s: got the file under its name, want it under another", s)
		}
		return 0, nil
	}
	if !c.Write(t.Context(), key, 1, data) {
		t.Fatal("got nothing kept")
	}
	want := []step{stepCreate, stepMkdir, stepCreate, stepWrite, stepWrite, stepSync, stepClose, stepRename}
	if !slices.Equal(steps, want) {
		t.Errorf("got %v, want %v", steps, want)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("after the write: %v", err)
	}
}

func TestWritesStepAsideAndComeBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := open(t, Config{Dir: t.TempDir()})
		defer c.Close()
		full := true
		calls := 0
		c.disk.fault = func(s step, _ string) (int, error) {
			if s == stepWrite {
				calls++
				if full {
					return 10, syscall.ENOSPC
				}
			}
			return 0, nil
		}
		write := func(i int) bool {
			key, data := chunkOf(i, 100)
			return c.Write(t.Context(), key, uint64(i), data)
		}
		for i := range 20 {
			if write(i) {
				t.Errorf("write %d on a full disk: got kept", i)
			}
		}
		if s := c.Stats(); calls != 1 || !s.WritesOff || s.WriteErrors != 1 || s.Skipped != 19 || s.Bytes != 0 {
			t.Errorf("got %d tries and %+v, want one and 19 skipped", calls, s)
		}
		time.Sleep(errorTime)
		write(1)
		write(2)
		if calls != 2 {
			t.Errorf("after the pause: got %d tries, want one probe more", calls)
		}
		time.Sleep(errorTime)
		write(1)
		if calls != 2 {
			t.Errorf("the second pause: got %d tries, want it longer", calls)
		}
		full = false
		time.Sleep(errorTime)
		if !write(1) || !write(2) || c.Stats().WritesOff {
			t.Errorf("disk with room again: got %+v, want writes on", c.Stats())
		}
	})
}

func TestReadsStepAsideAndComeBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := open(t, Config{Dir: t.TempDir()})
		defer c.Close()
		key := mustWrite(t, c, 1, 100)
		broken, calls := true, 0
		c.disk.fault = func(s step, _ string) (int, error) {
			if s == stepRead {
				calls++
				if broken {
					return 0, syscall.EIO
				}
			}
			return 0, nil
		}
		for range readErrors - 1 {
			wantThere(t, c, 1, 100, false)
		}
		time.Sleep(errorTime + 1) // too long a pause for the errors to count together
		wantThere(t, c, 1, 100, false)
		if c.Stats().ReadsOff || !c.Contains(key) {
			t.Error("ten errors, not within ten seconds: got reads off, want on")
		}
		for range readErrors - 1 {
			wantThere(t, c, 1, 100, false)
		}
		before := calls
		for range 5 {
			wantThere(t, c, 1, 100, false)
		}
		if s := c.Stats(); calls != before || !s.ReadsOff || c.Contains(key) {
			t.Errorf("ten errors: got %d more calls and %+v, want none", calls-before, s)
		}
		broken = false
		time.Sleep(errorTime)
		wantThere(t, c, 1, 100, true)
		if c.Stats().ReadsOff {
			t.Error("after a good probe: got reads off, want on")
		}
	})
}

// TestFileThatCannotBeRemoved checks that a damaged file that cannot be removed stays on disk, and
// is never read again.
func TestFileThatCannotBeRemoved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := open(t, Config{Dir: dir})
		defer c.Close()
		key := mustWrite(t, c, 1, 100)
		if err := os.Truncate(onlyFile(t, dir), 50); err != nil {
			t.Fatal(err)
		}
		c.disk.fault = func(s step, _ string) (int, error) {
			if s == stepRemove {
				return 0, syscall.EROFS
			}
			return 0, nil
		}
		wantThere(t, c, 1, 100, false)
		if s := c.Stats(); c.Contains(key) || s.Bytes != block || s.Corrupt != 1 {
			t.Errorf("got %v and %+v, want it gone and its room taken", c.Contains(key), s)
		}
		wantThere(t, c, 1, 100, false)
		if s := c.Stats(); s.Corrupt != 1 {
			t.Errorf("second read: got %d wrong files, want it not read again", s.Corrupt)
		}
		c.disk.fault = nil
		time.Sleep(longPause)
		mustWrite(t, c, 1, 100) // over it
		wantThere(t, c, 1, 100, true)
		if s := c.Stats(); s.Bytes != block || s.Chunks != 1 {
			t.Errorf("written over: got %+v, want one chunk", s)
		}
	})
}

// TestRead_MissDuringRewrite checks that a reader that finds its file missing does not remove a
// newer file of the same name from the list.
func TestRead_MissDuringRewrite(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	defer c.Close()
	key := mustWrite(t, c, 1, 100)
	c.disk.fault = func(s step, _ string) (int, error) {
		if s != stepOpen {
			return 0, nil
		}
		c.disk.fault = nil
		if err := c.evict(key.name(), false); err != nil {
			t.Error(err)
		}
		mustWrite(t, c, 1, 100)
		return 0, fs.ErrNotExist // the error of the old file
	}
	wantThere(t, c, 1, 100, false)
	wantThere(t, c, 1, 100, true)
	if s := c.Stats(); s.Chunks != 1 || s.Bytes != block {
		t.Errorf("got %+v, want one chunk", s)
	}
}

// TestLinkInTheCacheLeadsNowhere checks that a symbolic link out of the directory is not followed,
// even with the name of a chunk file.
func TestLinkInTheCacheLeadsNowhere(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	defer c.Close()
	key := mustWrite(t, c, 1, 100)
	file := filepath.Join(dir, filepath.FromSlash(key.name().file()))
	outside := filepath.Join(t.TempDir(), "chunk")
	if err := os.Rename(file, outside); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, file); err != nil {
		t.Fatal(err)
	}
	wantThere(t, c, 1, 100, false)
}

// TestTroubleIsTold checks that Tell is called with the reason each time the disk is turned off,
// and again when it is on.
func TestTroubleIsTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var told []string
		c := open(t, Config{Dir: t.TempDir(), Tell: func(what string, err error) { told = append(told, fmt.Sprint(what, ": ", err)) }})
		defer c.Close()
		mustWrite(t, c, 1, 100)
		c.disk.fault = func(s step, _ string) (int, error) {
			switch s {
			case stepSync:
				return 0, syscall.ENOSPC
			case stepRead:
				return 0, syscall.EIO
			}
			return 0, nil
		}
		round := func() {
			for range 2 * readErrors {
				wantThere(t, c, 1, 100, false)
				key, data := chunkOf(2, 100)
				c.Write(t.Context(), key, 2, data)
			}
		}
		round()
		time.Sleep(errorTime)
		round()
		c.disk.fault = nil
		time.Sleep(longPause)
		mustWrite(t, c, 3, 100)
		wantThere(t, c, 1, 100, true)
		wantThere(t, c, 1, 100, true)
		want := []string{
			"writes: no space left", "reads: input/output error", "reads: input/output error", "writes: no space left", "writes: <nil>", "reads: <nil>",
		}
		if len(told) != len(want) {
			t.Fatalf("got %q, want %q", told, want)
		}
		for i, w := range want {
			if !strings.HasPrefix(told[i], w) {
				t.Errorf("told %d: got %q, want %q", i, told[i], w)
			}
		}
	})
}
