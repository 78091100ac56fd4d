package auth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace-data/millrace/internal/testing/leaks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that a test advances.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// accessFile is the path of an access file.
type accessFile string

func newFile(t testing.TB, text string) accessFile {
	t.Helper()
	leaks.Check(t)
	f := accessFile(filepath.Join(t.TempDir(), "access.yaml"))
	f.put(t, text)
	return f
}

// put replaces the file atomically, like an operator should.
func (f accessFile) put(t testing.TB, text string) {
	t.Helper()
	beside := string(f) + ".new"
	if err := os.WriteFile(beside, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, string(f)); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, text string) *Guard {
	t.Helper()
	g, err := Open(Config{File: string(newFile(t, text)), Now: newClock().Now})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustBe(t testing.TB, g *Guard, text string) Principal {
	t.Helper()
	p, err := g.Authenticate(Credentials{Authorization: []string{"Bearer " + text}})
	if err != nil {
		t.Fatalf("a token that is good: got %v, want a principal", err)
	}
	return p
}

// refused checks that credentials are refused, with a reason that does not contain them.
func refused(t testing.TB, g *Guard, because string, headers ...string) {
	t.Helper()
	p, err := g.Authenticate(Credentials{Authorization: headers})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), because) || p.Name != "" {
		t.Errorf("%.60q: got %q and %v, want ErrInvalid with %q", headers, p.Name, err, because)
		return
	}
	for _, h := range headers {
		for _, word := range strings.FieldsFunc(h, func(c rune) bool { return c == ' ' || c == '.' }) {
			if len(word) > 8 && strings.Contains(err.Error(), word) {
				t.Errorf("%.60q: got %v, want a reason without any of the credentials", headers, err)
			}
		}
	}
}
