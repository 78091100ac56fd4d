package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

func mustOpen(t *testing.T, name string) *Log {
	t.Helper()
	l, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// entries reads a log. It counts partial lines, which are not valid JSON.
func entries(t *testing.T, name string) (all []Entry, torn int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e Entry
		if json.Unmarshal([]byte(line), &e) != nil || !strings.HasSuffix(line, "\n") {
			torn++
			continue
		}
		all = append(all, e)
	}
	return all, torn
}

func TestNilKeepsNothing(t *testing.T) {
	var l *Log
	l.Add(Entry{})
	l.Stranger("a")
	if err := errors.Join(l.Err(), l.Close()); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "none", "audit.log")
	if _, err := Open(name); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v, want an error with %s", err, name)
	}
}

func TestFileMovedAway(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	l := mustOpen(t, name)
	l.Add(Entry{Event: Write, Principal: "one"})
	for i, change := range []func() error{
		func() error { return os.Rename(name, name+".0") },
		func() error { return os.Remove(name) },
		func() error { return errors.Join(os.Rename(name, name+".1"), os.WriteFile(name, nil, 0o600)) }, // like logrotate's create option
		func() error { return os.Truncate(name, 0) },                                                    // copytruncate
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		l.Add(Entry{Event: Write, Principal: fmt.Sprint("after ", i)})
		if got, torn := entries(t, name); len(got) != 1 || torn != 0 || got[0].Principal != fmt.Sprint("after ", i) {
			t.Errorf("change %d: got %+v and %d torn, want one line in the new file", i, got, torn)
		}
	}
	if got, torn := entries(t, name+".0"); len(got) != 1 || torn != 0 {
		t.Errorf("got %+v and %d torn in the old file, want the first line", got, torn)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v and %v, want 0600", info.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullDisk redirects the log to /dev/full, and then to a file again: no line is lost.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "audit.log")
	l := mustOpen(t, name)
	swap := func(target string) {
		t.Helper()
		if err := errors.Join(os.Symlink(target, name+".new"), os.Rename(name+".new", name)); err != nil {
			t.Fatal(err)
		}
	}
	swap("/dev/full")
	if err := l.Err(); err != nil {
		t.Fatalf("before a line was added: got %v", err)
	}
	for i := range 3 {
		l.Add(Entry{Event: Write, Principal: fmt.Sprint(i)})
		if err := l.Err(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v, want no space left", err)
		}
	}
	l.Stranger("1.2.3.4")
	l.flush()
	swap(filepath.Join(dir, "there is room"))
	if err := l.Err(); err != nil {
		t.Errorf("once there is room: got %v, want nil", err)
	}
	got, torn := entries(t, name)
	if len(got) != 4 || torn != 0 || got[0].Principal != "0" || got[2].Principal != "2" || got[3].Event != strangers {
		t.Errorf("got %+v and %d torn, want the four lines in order", got, torn)
	}
	swap("/dev/full")
	l.Add(Entry{Event: Write})
	if err := l.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v from the end, want what is lost", err)
	}
}

// shortWriter accepts a limited number of bytes.
type shortWriter struct {
	room int
	got  []byte
}

func (n *shortWriter) Write(p []byte) (int, error) {
	took := min(n.room, len(p))
	n.room -= took
	n.got = append(n.got, p[:took]...)
	if took < len(p) {
		return took, syscall.ENOSPC
	}
	return took, nil
}

// TestTornLines fills the disk after any part of three lines, twice. Each line is written
// completely once, and each partial line is terminated.
func TestTornLines(t *testing.T) {
	for room := range 700 {
		disk := &shortWriter{room: room}
		l := &Log{out: disk, unknown: map[string]int{}}
		for i := range 3 {
			l.Add(Entry{Event: Write, Principal: fmt.Sprint("p", i)})
		}
		disk.room = room % 50
		_ = l.Err()
		disk.room = 1 << 20
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		var seen []string
		for line := range strings.Lines(string(disk.got)) {
			var e Entry
			if json.Unmarshal([]byte(line), &e) == nil {
				seen = append(seen, e.Principal)
			}
		}
		if got := strings.Join(seen, " "); got != "p0 p1 p2" {
			t.Fatalf("room for %d bytes: got lines %q in %q, want each once", room, got, disk.got)
		}
	}
}

// TestRefusalsAreBounded: while the disk is full, buffered refusals use at most mostKept bytes.
// Further refusals are only counted.
func TestRefusalsAreBounded(t *testing.T) {
	disk := &shortWriter{}
	l := &Log{out: disk, unknown: map[string]int{}}
	l.kept = append(make([]byte, mostKept), '\n') // buffered lines of this size
	for range 10 {
		l.Add(Entry{Event: Refusal})
	}
	l.Add(Entry{Event: Write, Principal: "kept"})
	if len(l.kept) > mostKept+1<<10 || l.dropped != 10 {
		t.Errorf("got %d bytes kept and %d refusals dropped, want %d and 10", len(l.kept), l.dropped, mostKept)
	}
	disk.room = 8 << 20
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	if got := string(disk.got); !strings.Contains(got, `"principal":"kept"`) || !strings.Contains(got, `"requests":10}`) || l.dropped != 0 {
		t.Errorf("got %s, want the write, and ten refusals in one line", got[len(got)-300:])
	}
}

func TestStrangersAreAddedUp(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	bubble.Test(t, func(t *testing.T) {
		l := mustOpen(t, name)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { l.Run(ctx); close(done) }()
		for range 1000 {
			l.Stranger("1.2.3.4")
		}
		l.Stranger("5.6.7.8")
		synctest.Wait()
		if got, _ := entries(t, name); len(got) != 0 {
			t.Errorf("got %d lines within the minute, want none", len(got))
		}
		time.Sleep(flushEvery + time.Second)
		synctest.Wait()
		counts := map[string]int{}
		got, _ := entries(t, name)
		for _, e := range got {
			counts[e.Address] = e.Requests
		}
		if len(got) != 2 || counts["1.2.3.4"] != 1000 || counts["5.6.7.8"] != 1 {
			t.Errorf("got %+v, want a line for each address with its number", got)
		}
		for i := range most + 500 {
			l.Stranger(fmt.Sprint("address ", i))
		}
		l.Stranger("address 1")
		if n := len(l.unknown); n != most+1 || l.unknown["others"] != 500 || l.unknown["address 1"] != 2 {
			t.Errorf("got %d addresses and %d of others, want %d and 500", n, l.unknown["others"], most+1)
		}
		cancel()
		<-done
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got, _ := entries(t, name); len(got) != 2+most+1 {
			t.Errorf("got %d lines at the end, want %d", len(got), 2+most+1)
		}
	})
}

// TestManyWritersAndARotation: each line is written once, in one of the files.
func TestManyWritersAndARotation(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	l := mustOpen(t, name)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 200 {
				l.Add(Entry{Event: Write, Principal: fmt.Sprint(w, " ", i)})
				l.Stranger(fmt.Sprint(w))
				_ = l.Err()
			}
		})
	}
	const moves = 20
	for i := range moves {
		_ = os.Rename(name, fmt.Sprint(name, ".", i)) // the file may not exist yet
		time.Sleep(time.Millisecond)
	}
	all.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(name + "*")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, file := range files {
		got, torn := entries(t, file)
		if torn != 0 {
			t.Errorf("%s: got %d torn lines, want none", file, torn)
		}
		for _, e := range got {
			if e.Event == Write {
				seen[e.Principal]++
			}
		}
	}
	if len(seen) != 8*200 {
		t.Errorf("got %d lines, want %d", len(seen), 8*200)
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("got line %s %d times, want once", line, n)
		}
	}
}
