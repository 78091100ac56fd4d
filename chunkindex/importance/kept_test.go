package importance

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// keepAll adds reports while the bucket denies writes.
func keepAll(t *testing.T, l *Log, reports ...Report) {
	t.Helper()
	for _, r := range reports {
		_, err := l.Add(t.Context(), r)
		var ro *ReadOnlyError
		if !errors.Is(err, ErrReadOnly) || !errors.As(err, &ro) || !ro.Kept {
			t.Fatalf("got %v, want a kept report", err)
		}
	}
}

func wantKept(t *testing.T, l *Log, want int) {
	t.Helper()
	if got := len(l.kept.seen); got != want {
		t.Errorf("kept: got %d, want %d", got, want)
	}
}

// TestLogsOfOneDatasetShareItsFile opens two Logs of one dataset. Closing the last one must release
// the file.
func TestLogsOfOneDatasetShareItsFile(t *testing.T) {
	store, dir := memstore.New(), t.TempDir()
	inDir := func(c *Config) { c.Dir = dir }
	reports := epochReports(epochLosses(43, 1))
	denied(store, true)
	first := newLog(t, store, inDir)
	second := newLog(t, store, inDir, func(c *Config) { c.Beside = first })
	keepAll(t, first, reports[0])
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	keepAll(t, second, reports[0], reports[1])
	wantKept(t, second, 2)
	if _, err := New(Config{Reader: store, Dir: dir}); err == nil {
		t.Error("got another log of the file while it is open, want an error")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	again := newLog(t, store, inDir)
	wantKept(t, again, 2)
}

func TestReadOnlyBucketKeepsReports(t *testing.T) {
	store, plain, dir := memstore.New(), memstore.New(), t.TempDir()
	inDir := func(c *Config) { c.Dir = dir }
	reports := epochReports(epochLosses(43, 1))
	denied(store, true)
	l := newLog(t, store, inDir)
	keepAll(t, l, reports[:2]...)
	size := l.kept.size
	keepAll(t, l, reports[0]) // the same report again, which is stored only once
	wantKept(t, l, 2)
	if got := l.kept.size; got != size {
		t.Errorf("local log: got %d bytes, want %d", got, size)
	}
	l.Close()

	l = newLog(t, store, inDir) // after a restart
	wantKept(t, l, 2)
	if _, err := l.Flush(t.Context()); !errors.Is(err, ErrReadOnly) || !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("flush: got %v, want %v", err, ErrReadOnly)
	}
	keepAll(t, l, reports[2:]...)
	if _, err := l.Freeze(t.Context(), request()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("freeze: got %v, want %v", err, ErrReadOnly)
	}
	wantKept(t, l, len(reports))

	denied(store, false)
	add(t, newLog(t, plain), reports...)
	if got, want := freeze(t, l, request()).Digest, freeze(t, newLog(t, plain), request()).Digest; got != want {
		t.Errorf("snapshot of reports that were kept: got %s, want %s", got, want)
	}
	wantKept(t, l, 0)
	if done, err := l.Flush(t.Context()); err != nil || done != (FlushReport{}) {
		t.Errorf("flush of nothing: got %+v, %v", done, err)
	}
}

// TestFlush_DropsRejectedReports checks that a report that would fail in every attempt blocks
// neither the flush nor later reports.
func TestFlush_DropsRejectedReports(t *testing.T) {
	all := epochLosses(43, 1)
	other, shorter, late := report(all, 8, 16), report(all, 8, 12), report(all, 8, 16)
	other.Losses[4]++
	shorter.Count--
	late.Epoch = 1000
	var begun []Report
	for epoch := range uint64(maxOpen) {
		begun = append(begun, report(all, 0, 4))
		begun[epoch].Epoch = 100 + epoch
	}
	for name, c := range map[string]struct {
		kept   Report
		bucket []Report
	}{"another loss": {other, []Report{report(all, 8, 16)}}, "another batch": {shorter, []Report{report(all, 8, 16)}}, "too many epochs": {late, begun}} {
		store := memstore.New()
		l := newLog(t, store, func(c *Config) { c.Dir = t.TempDir() })
		good := report(all, 16, 24)
		good.Epoch = c.bucket[0].Epoch
		denied(store, true)
		keepAll(t, l, c.kept, good)
		denied(store, false)
		add(t, newLog(t, store), c.bucket...)
		if done, err := l.Flush(t.Context()); err != nil || done != (FlushReport{Sent: 1, Conflicts: 1}) {
			t.Errorf("%s: got %+v, %v, want one sent and one dropped", name, done, err)
		}
		wantKept(t, l, 0)
	}
}

func TestFlushKeepsAllWhenTheStoreFails(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store, func(c *Config) { c.Dir = t.TempDir() })
	reports := epochReports(epochLosses(43, 1))
	denied(store, true)
	keepAll(t, l, reports...)
	puts := 0
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Put {
			if puts++; puts == 3 {
				return memstore.Fault{Err: objstore.ErrUnavailable}
			}
		}
		return memstore.Fault{}
	})
	if done, err := l.Flush(t.Context()); !errors.Is(err, objstore.ErrUnavailable) || done.Sent > len(reports)-1 {
		t.Errorf("got %+v, %v, want %v", done, err, objstore.ErrUnavailable)
	}
	wantKept(t, l, len(reports))
	if done, err := l.Flush(t.Context()); err != nil || done.Sent != len(reports) {
		t.Errorf("again: got %+v, %v, want %d sent", done, err, len(reports))
	}
}

// TestFlushGoesOnWhereItFailed uses a local log that needs several attempts to send. Each attempt
// must make progress.
func TestFlushGoesOnWhereItFailed(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store, func(c *Config) { c.Dir = t.TempDir() })
	denied(store, true)
	const batches, size = 150, 2048
	for b := range uint64(batches) {
		r := Report{Plan: testPlan, Epoch: 3, Batch: b, First: b * size, Count: size}
		for p := range uint64(size) {
			r.Positions, r.Losses = append(r.Positions, r.First+p), append(r.Losses, 1)
		}
		keepAll(t, l, r)
	}
	tries := 0
	for ; tries < 20; tries++ {
		left := 100 // number of requests until the store fails
		store.SetFault(func(memstore.Call) memstore.Fault {
			if left--; left < 0 {
				return memstore.Fault{Err: objstore.ErrUnavailable}
			}
			return memstore.Fault{}
		})
		done, err := l.Flush(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, objstore.ErrUnavailable) {
			t.Fatalf("got %+v, %v, want %v", done, err, objstore.ErrUnavailable)
		}
		wantKept(t, l, batches)
	}
	if tries < 2 || tries > 10 || len(logged(store)) != batches {
		t.Errorf("got %d reports after %d failures, want all %d, after a few", len(logged(store)), tries, batches)
	}
	wantKept(t, l, 0)
}

// TestFlushKeepsTheOrderOfABatch uses many batches. If a position has two losses, the first stored
// one must count.
func TestFlushKeepsTheOrderOfABatch(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store, func(c *Config) { c.Dir = t.TempDir() })
	denied(store, true)
	losses := epochLosses(43, 1)
	for _, r := range epochReports(losses) {
		second := r
		second.Losses = slices.Clone(r.Losses)
		for i := range second.Losses {
			second.Losses[i] = -1 - r.Losses[i] // reverses the ranks
		}
		keepAll(t, l, r, second)
	}
	denied(store, false)
	want := len(epochReports(losses))
	if done, err := l.Flush(t.Context()); err != nil || done != (FlushReport{Sent: want, Conflicts: want}) {
		t.Errorf("got %+v, %v, want %d sent and as many conflicts", done, err, want)
	}
	plain := memstore.New()
	add(t, newLog(t, plain), epochReports(losses)...)
	if got, want := freeze(t, l, request()).Digest, freeze(t, newLog(t, plain), request()).Digest; got != want {
		t.Errorf("snapshot: got %s, want %s, that of the losses kept first", got, want)
	}
}

func TestAdd_WithoutADirectory(t *testing.T) {
	store := memstore.New()
	for name, l := range map[string]*Log{
		"no directory": newLog(t, store),
		"no writer":    newLog(t, store, func(c *Config) { c.Writer = nil }),
		"full":         newLog(t, store, func(c *Config) { c.Dir, c.MaxKept = t.TempDir(), 100 }),
	} {
		denied(store, true)
		_, err := l.Add(t.Context(), report(epochLosses(43, 1), 8, 16))
		var ro *ReadOnlyError
		if !errors.As(err, &ro) || ro.Kept || !strings.Contains(err.Error(), "lost unless") {
			t.Errorf("%s: got %v, want an error that says the report is lost", name, err)
		}
	}
}

func TestLocalLogBelongsToOneDatasetAndOneProcess(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, memstore.New(), func(c *Config) { c.Dir = dir })
	cfg := l.cfg
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second process: got %v, want in use", err)
	}
	l.Close()
	cfg.Location = "s3://bucket/other/"
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "another dataset than s3://bucket/other/") {
		t.Errorf("another dataset: got %v, want a refusal", err)
	}
	path := filepath.Join(dir, keptName)
	for name, text := range map[string]string{"text": strings.Repeat("notes\n", 20), "newer": "MRKEPT02" + strings.Repeat("x", 100)} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := New(l.cfg); err == nil || errors.Is(err, ErrVersion) != (name == "newer") {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%s: a file that is not ours was changed: %v", name, err)
		}
	}
}

// keptFile returns the bytes of a local log with three reports, and the end offset of each record.
func keptFile(t *testing.T) (b []byte, ends []int64) {
	t.Helper()
	store, dir := memstore.New(), t.TempDir()
	denied(store, true)
	l := newLog(t, store, func(c *Config) { c.Dir = dir })
	for _, r := range epochReports(epochLosses(24, 1)) {
		keepAll(t, l, r)
		ends = append(ends, l.kept.size)
	}
	b, err := os.ReadFile(filepath.Join(dir, keptName))
	if err != nil {
		t.Fatal(err)
	}
	return b, ends
}

// reopened opens a file as a local log and adds one report. It returns the number of stored reports
// and of lost bytes.
func reopened(t *testing.T, b []byte) (kept int, lost int64) {
	t.Helper()
	store, dir := memstore.New(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, keptName), b, 0o644); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, store, func(c *Config) { c.Dir = dir })
	defer l.Close()
	kept = len(l.kept.seen)
	denied(store, true)
	more := report(epochLosses(43, 9), 24, 32)
	keepAll(t, l, more)
	denied(store, false)
	done, err := l.Flush(t.Context())
	if err != nil || done.Sent != kept+1 {
		t.Fatalf("flush: got %+v, %v, want %d sent", done, err, kept+1)
	}
	return kept, done.Lost
}

// loaded opens a file as a local log and returns the number of stored reports.
func loaded(t *testing.T, dir string, b []byte) int {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, keptName), b, 0o644); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, memstore.New(), func(c *Config) { c.Dir = dir })
	defer l.Close()
	kept := len(l.kept.seen)
	if info, err := l.kept.file.Stat(); err != nil || info.Size() != l.kept.size {
		t.Errorf("file: got %d bytes, %v, want %d: what is torn is cut off", info.Size(), err, l.kept.size)
	}
	return kept
}

func TestTornTailIsCutOff(t *testing.T) {
	b, ends := keptFile(t)
	dir := t.TempDir()
	for n := range b {
		want := 0
		for want < len(ends) && ends[want] <= int64(n) {
			want++
		}
		if kept := loaded(t, dir, b[:n]); kept != want {
			t.Fatalf("first %d bytes: got %d reports, want %d", n, kept, want)
		}
		if n%97 > 0 {
			continue
		}
		if kept, lost := reopened(t, b[:n]); kept != want || lost != 0 {
			t.Fatalf("first %d bytes: got %d reports and %d bytes lost, want %d and none", n, kept, lost, want)
		}
	}
	if kept, lost := reopened(t, make([]byte, keptHeader)); kept != 0 || lost != 0 {
		t.Errorf("zeros in place of the header: got %d reports and %d bytes lost, want a new log", kept, lost)
	}
	if kept, lost := reopened(t, append(b, make([]byte, 100)...)); kept != 3 || lost != 0 {
		t.Errorf("zeros at the end: got %d reports and %d bytes lost, want 3 and none", kept, lost)
	}
}

func TestFlush_CountsADamagedLastRecord(t *testing.T) {
	store, dir := memstore.New(), t.TempDir()
	denied(store, true)
	l := newLog(t, store, func(c *Config) { c.Dir = dir })
	var ends []int64
	for _, r := range epochReports(epochLosses(24, 1)) {
		keepAll(t, l, r)
		ends = append(ends, l.kept.size)
	}
	if _, err := l.kept.file.WriteAt([]byte{0xff}, ends[2]-1); err != nil {
		t.Fatal(err)
	}
	denied(store, false)
	if done, err := l.Flush(t.Context()); err != nil || done.Sent != 2 || done.Lost != ends[2]-ends[1] {
		t.Errorf("got %+v, %v, want 2 reports sent and %d bytes lost", done, err, ends[2]-ends[1])
	}
}

func TestDamageCostsOneRecord(t *testing.T) {
	b, ends := keptFile(t)
	for i := ends[0]; i < ends[1]; i += 1 + i%7 {
		b[i] ^= 1 << (i % 8)
		if kept, lost := reopened(t, b); kept != 2 || lost != ends[1]-ends[0] {
			t.Fatalf("byte %d damaged: got %d reports and %d bytes lost, want 2 and %d", i, kept, lost, ends[1]-ends[0])
		}
		b[i] ^= 1 << (i % 8)
	}
}
