package auth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/watch"
)

const (
	opens  = "grants: [{who: [anonymous], datasets: [open], rights: [read]}]\n"
	closes = "grants: [{who: [anonymous], datasets: [other], rights: [read]}]\n"
)

// watchedGuard is a guard that reloads its file in a synctest bubble, with the reports that it
// makes.
type watchedGuard struct {
	*Guard
	file accessFile

	mu   sync.Mutex
	said []error
}

func newWatched(t *testing.T, text string) *watchedGuard {
	t.Helper()
	w := &watchedGuard{file: newFile(t, text)}
	g, err := Open(Config{File: string(w.file), Changed: func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.said = append(w.said, err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.Guard = g
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("a Run that is stopped: got %v, want nil", err)
		}
	})
	return w
}

// told returns the arguments of Changed since the last call.
func (w *watchedGuard) told() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}

func TestAChangedFileComesIntoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, opens)
		time.Sleep(10 * watch.LookEvery)
		if said := w.told(); said != nil || !w.May(Anonymous(), Read, "open") {
			t.Errorf("a file that stays: got %v, want nothing told", said)
		}
		w.file.put(t, closes)
		time.Sleep(watch.LookEvery + watch.Settle)
		synctest.Wait()
		if said := w.told(); len(said) != 1 || said[0] != nil {
			t.Errorf("a new file: got %v told, want one nil", said)
		}
		if w.May(Anonymous(), Read, "open") || !w.May(Anonymous(), Read, "other") {
			t.Error("after a change: got the old rights, want the new ones")
		}
		if s := w.Stats(); s.Reloads != 1 || s.Faults != 0 || !s.FileOK || time.Since(s.Loaded) > watch.LookEvery {
			t.Errorf("got %+v, want one reload just now", s)
		}
	})
}

func TestAFaultyFileKeepsTheOldOne(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, f accessFile){
		"half-written":   func(t *testing.T, f accessFile) { f.put(t, closes[:len(closes)/2]) },
		"empty":          func(t *testing.T, f accessFile) { f.put(t, "") },
		"gone":           func(t *testing.T, f accessFile) { must(t, os.Remove(string(f))) },
		"world-writable": func(t *testing.T, f accessFile) { must(t, os.Chmod(string(f), 0o666)) },
		"a directory": func(t *testing.T, f accessFile) {
			must(t, os.Remove(string(f)))
			must(t, os.Mkdir(string(f), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatched(t, opens)
				spoil(t, w.file)
				time.Sleep(10 * watch.LookEvery)
				synctest.Wait()
				said := w.told()
				if len(said) != 1 || said[0] == nil || !strings.Contains(said[0].Error(), string(w.file)) {
					t.Fatalf("got %v told, want one fault that names the file", said)
				}
				if err := w.Reload(); err == nil || err.Error() != said[0].Error() {
					t.Errorf("Reload: got %v, want %v again", err, said[0])
				}
				if !w.May(Anonymous(), Read, "open") {
					t.Error("got the old rights gone, want them kept")
				}
				if s := w.Stats(); s.FileOK || s.Faults != 1 || s.Reloads != 0 || w.told() != nil {
					t.Errorf("got %+v, want one fault, told once", s)
				}
				must(t, os.RemoveAll(string(w.file)))
				w.file.put(t, opens)
				time.Sleep(watch.LookEvery + watch.Settle)
				synctest.Wait()
				if said := w.told(); len(said) != 1 || said[0] != nil || !w.Stats().FileOK {
					t.Errorf("mended: got %v told, want one nil", said)
				}
			})
		})
	}
}

// TestAFileThatIsBeingWrittenIsWaitedFor writes a file in two parts. The first part is a valid file
// by itself.
func TestAFileThatIsBeingWrittenIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, opens+"# as it was\n")
		file, err := os.OpenFile(string(w.file), os.O_WRONLY|os.O_TRUNC, 0)
		must(t, err)
		defer file.Close()
		must(t, write(file, "grants:\n  - {who: [anonymous], datasets: [first], rights: [read]}\n"))
		time.Sleep(watch.LookEvery + watch.Settle/2) // the guard has seen the first half
		must(t, write(file, "  - {who: [anonymous], datasets: [open], rights: [read]}\n"))
		time.Sleep(watch.Settle)
		synctest.Wait()
		if said := w.told(); said != nil || !w.May(Anonymous(), Read, "open") {
			t.Errorf("half a file: got %v told, want it waited for", said)
		}
		time.Sleep(watch.LookEvery + watch.Settle)
		synctest.Wait()
		if said := w.told(); len(said) != 1 || !w.May(Anonymous(), Read, "open") || !w.May(Anonymous(), Read, "first") {
			t.Errorf("the whole file: got %v told, want it in use", said)
		}
	})
}

func write(file *os.File, text string) error {
	_, err := file.WriteString(text)
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReloadReadsTheFileAtOnce(t *testing.T) {
	file := newFile(t, opens)
	g, err := Open(Config{File: string(file)})
	must(t, err)
	if err := g.Reload(); err != nil || g.Stats().Reloads != 0 {
		t.Errorf("a file that stays: got %v, want it left", err)
	}
	file.put(t, closes)
	if err := g.Reload(); err != nil || !g.May(Anonymous(), Read, "other") {
		t.Errorf("a new file: got %v, want it in use", err)
	}
}

func TestRunOfAGuardWithoutAFileEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Everybody(Read).Run(ctx); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

// TestReloadUnderLoad authenticates while the file changes. Each decision follows one version of
// the file, and a token in all versions is never refused.
func TestReloadUnderLoad(t *testing.T) {
	text, digest := NewToken()
	contents := make([]string, 3)
	for i := range contents {
		contents[i] = fmt.Sprintf(`
tokens: [{name: a, sha256: %s}, {name: b%d, sha256: %064x}]
grants: [{who: ["token:a"], datasets: [always, d%d], rights: [read]}]
limits: [{who: ["*"], requests: %d/s}]
`, digest, i, i+1, i, i+1)
	}
	file := newFile(t, contents[0])
	g, err := Open(Config{File: string(file)})
	must(t, err)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p, err := g.Authenticate(Credentials{Authorization: []string{"Bearer " + text}})
				if err != nil || p.Name != "token:a" || !g.May(p, Read, "always") || g.May(p, Read, "never") || g.Limits(p).Requests == 0 {
					t.Errorf("got %q, %v, want the token known by every version", p.Name, err)
					return
				}
				_ = g.Stats()
			}
		})
	}
	for i := 1; i <= 60; i++ {
		if i%10 == 0 {
			file.put(t, contents[i%3][:60])
			if err := g.Reload(); err == nil {
				t.Errorf("half a file: got no fault")
			}
		}
		file.put(t, contents[i%3])
		if err := g.Reload(); err != nil {
			t.Error(errors.Join(errors.New("a whole file"), err))
		}
		if p := mustBe(t, g, text); !g.May(p, Read, fmt.Sprintf("d%d", i%3)) || g.May(p, Read, fmt.Sprintf("d%d", (i+1)%3)) {
			t.Errorf("change %d: got the rights of another version", i)
		}
	}
	close(stop)
	asking.Wait()
}
