package importance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/fulldisk"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

var errStore = errors.New("the store fails")

// TestLog_WorksAgainAfterAnyRequestFails lets each request to the store fail, lose its response or
// end with its context. The operation must fail with that error and leave no file. A repetition
// must succeed and leave the same objects in the bucket as an operation without a failure.
func TestLog_WorksAgainAfterAnyRequestFails(t *testing.T) {
	reports := epochReports(epochLosses(43, 1))
	added := func(r Report) func(context.Context, *Log, string) error {
		return func(ctx context.Context, l *Log, _ string) error { _, err := l.Add(ctx, r); return err }
	}
	frozenOf := func(epoch uint64) func(context.Context, *Log, string) error {
		return func(ctx context.Context, l *Log, _ string) error {
			q := request()
			q.Epoch = epoch
			_, err := l.Freeze(ctx, q)
			return err
		}
	}
	newEpoch := reports[0]
	newEpoch.Epoch = 9
	operations := map[string]func(ctx context.Context, l *Log, digest string) error{
		"add": added(reports[5]), "add again": added(reports[0]), "add a new epoch": added(newEpoch),
		"freeze": frozenOf(5), "freeze again": frozenOf(3),
		"flush": func(ctx context.Context, l *Log, _ string) error { _, err := l.Flush(ctx); return err },
		"open": func(ctx context.Context, l *Log, digest string) error {
			s, err := l.Open(ctx, digest, testGeneration(), testFirst())
			if err == nil {
				s.Close()
			}
			return err
		},
		"list": func(ctx context.Context, l *Log, _ string) error {
			snapshots, all, err := l.Stored(ctx)
			for _, s := range snapshots {
				err = errors.Join(err, s.Fault)
			}
			for _, r := range all {
				err = errors.Join(err, r.Fault)
			}
			return err
		},
	}
	for fault, want := range map[string]error{"an error": errStore, "a lost answer": errStore, "the end of the context": context.Canceled} {
		for name, operation := range operations {
			var whole map[string]string // objects in the bucket after an operation without a failure
			for fails, struck := -1, true; struck; fails++ {
				store := memstore.New()
				l := newLog(t, store, func(c *Config) { c.Dir, c.CacheDir = t.TempDir(), t.TempDir() })
				add(t, l, reports[:5]...)
				digest := freeze(t, l, request()).Digest
				denied(store, true)
				r := reports[4]
				r.Epoch = 5
				keepAll(t, l, r)
				ctx, cancel := context.WithCancel(t.Context())
				calls := 0
				struck = false
				store.SetFault(func(memstore.Call) memstore.Fault {
					if calls++; calls-1 != fails {
						return memstore.Fault{}
					}
					struck = true
					if want == context.Canceled {
						return memstore.Fault{Before: cancel, Stall: true}
					}
					return memstore.Fault{Applied: fault == "a lost answer", Err: errStore}
				})
				err := operation(ctx, l, digest)
				there := fault == "a lost answer" && err == nil // a failed write condition takes precedence
				if errors.Is(err, want) != struck && !there || !struck && err != nil {
					t.Errorf("%s, request %d meets %s (%t): got %v", name, fails, fault, struck, err)
				}
				cancel()
				if name == "flush" && struck {
					wantKept(t, l, 1)
				}
				if left, err := filepath.Glob(filepath.Join(l.cfg.CacheDir, tempPrefix+"*")); err != nil || len(left) > 0 {
					t.Errorf("%s, request %d meets %s: got files %v, %v, want none", name, fails, fault, left, err)
				}
				store.SetFault(nil)
				if err := operation(t.Context(), l, digest); err != nil {
					t.Errorf("%s, after request %d met %s: got %v", name, fails, fault, err)
				}
				if whole == nil {
					whole, struck = contentsOf(store), true
				}
				if got := contentsOf(store); !maps.Equal(got, whole) {
					t.Errorf("%s, after request %d met %s: got objects %q, want %q", name, fails, fault, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(whole)))
				}
			}
		}
	}
}

func contentsOf(store *memstore.Store) map[string]string {
	all := map[string]string{}
	for _, key := range store.Keys() {
		b, _ := store.Bytes(key)
		all[key] = string(b)
	}
	return all
}

// TestAdd_ReturnsErrorsOfComparing: if a write finds an existing object, Add compares the two and
// returns any error of that comparison.
func TestAdd_ReturnsErrorsOfComparing(t *testing.T) {
	r := report(epochLosses(43, 1), 8, 16)
	for _, op := range []memstore.Op{memstore.Stat, memstore.Read, memstore.Delete} {
		store := memstore.New()
		l := newLog(t, store)
		written := false
		store.SetFault(func(c memstore.Call) memstore.Fault {
			switch {
			case c.Op == memstore.Put && strings.Contains(c.Key, logDir):
				written = true
				return memstore.Fault{Applied: true, Err: objstore.ErrChanged}
			case written && c.Op == op:
				return memstore.Fault{Err: errStore}
			}
			return memstore.Fault{}
		})
		added, err := l.Add(t.Context(), r)
		if wants := op != memstore.Delete; added || errors.Is(err, errStore) != wants || !wants && err != nil {
			t.Errorf("%s fails: got %t, %v", op, added, err)
		}
	}
}

// TestFreeze_RejectsExistingObjects checks that an existing object under the snapshot's name must
// have the snapshot's size. If the store denies writes, Freeze returns a read-only error.
func TestFreeze_RejectsExistingObjects(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	add(t, l, epochReports(epochLosses(43, 1))...)
	digest := freeze(t, l, request()).Digest
	key := "data/set/" + roomDir + digest
	whole, ok := store.Bytes(key)
	if !ok {
		t.Fatalf("no object %s", key)
	}
	if again := freeze(t, l, request()); again.Digest != digest {
		t.Errorf("frozen again: got %s, want %s", again.Digest, digest)
	}
	for _, b := range [][]byte{whole[:len(whole)-1], append(bytes.Clone(whole), 0)} {
		store.Set(key, b)
		_, err := l.Freeze(t.Context(), request())
		want := fmt.Sprintf("%s: corrupt: it has %d bytes instead of %d (remove the object, and freeze again)", key, len(b), len(whole))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	store.Set(key, whole)
	denied(store, true)
	q := request()
	q.HotShare = .3
	if _, err := l.Freeze(t.Context(), q); !errors.Is(err, ErrReadOnly) || !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("without the right to write: got %v, want %v", err, ErrReadOnly)
	}
}

// TestAdd_FullDisk checks that a full disk makes Add fail without storing a partial record. Once
// there is space, Add accepts the report.
func TestAdd_FullDisk(t *testing.T) {
	store, dir := memstore.New(), t.TempDir()
	inDir := func(c *Config) { c.Dir = dir }
	denied(store, true)
	l := newLog(t, store, inDir)
	reports := epochReports(epochLosses(43, 1))
	keepAll(t, l, reports[0])
	path := filepath.Join(dir, keptName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	free := fulldisk.At(t, uint64(len(before))+20)
	_, err = l.Add(t.Context(), reports[1])
	free()
	var refused *ReadOnlyError
	if !errors.As(err, &refused) || refused.Kept || !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "local log: ") || !strings.Contains(err.Error(), syscall.EFBIG.Error()) {
		t.Errorf("got %v, want a report that is lost, with both reasons", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file has %d bytes, %v, want the %d of before", len(after), err, len(before))
	}
	wantKept(t, l, 1)
	keepAll(t, l, reports[1], reports[2])
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again := newLog(t, store, inDir)
	wantKept(t, again, 3)
	denied(store, false)
	if done, err := again.Flush(t.Context()); err != nil || done.Sent != 3 || done.Lost != 0 {
		t.Errorf("flush: got %+v, %v, want three reports sent and nothing lost", done, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != keptHeader {
		t.Errorf("after the flush: got %d bytes, %v, want the header", info.Size(), err)
	}
}

// TestSnapshot_FullDisk checks that a full disk makes a snapshot return an error and leave no file.
func TestSnapshot_FullDisk(t *testing.T) {
	store, dir := memstore.New(), t.TempDir()
	l := newLog(t, store, func(c *Config) { c.CacheDir = dir })
	add(t, l, epochReports(epochLosses(43, 1))...)
	digest := freeze(t, l, request()).Digest
	before := store.Keys()
	free := fulldisk.At(t, 50)
	q := request()
	q.HotShare = .3
	if _, err := l.Freeze(t.Context(), q); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("freeze: got %v, want %v", err, syscall.EFBIG)
	}
	if _, err := l.Open(t.Context(), digest, testGeneration(), testFirst()); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("open: got %v, want %v", err, syscall.EFBIG)
	}
	free()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("got files %v, %v, want none", entries, err)
	}
	if got := store.Keys(); !slices.Equal(got, before) {
		t.Errorf("got %q in the bucket, want %q", got, before)
	}
	open(t, l, digest)
}

func TestNew_RefusesDirectories(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, keptName), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(dir, "file", "a"), dir} {
		if l, err := New(Config{Reader: memstore.New(), Dir: dir}); err == nil {
			t.Errorf("%s: got no error", dir)
			l.Close()
		}
	}
}

// TestLocalLog_RefusesNewerReports checks that a report of a newer version does not count as
// damage. Otherwise it would be skipped, and lost in the next flush.
func TestLocalLog_RefusesNewerReports(t *testing.T) {
	b, _ := keptFile(t)
	newer := report(epochLosses(43, 1), 24, 32)
	record := reseal(append([]byte("MRLOSS02"), newer.canonical().encode()[8:]...))
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(record)))
	crc := crc32.Update(crc32.Checksum(head, castagnoli()), castagnoli(), record)
	b = append(append(b, binary.LittleEndian.AppendUint32(head, crc)...), record...)
	dir := t.TempDir()
	path := filepath.Join(dir, keptName)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Config{Reader: memstore.New(), Prefix: "data/set/", Location: "s3://bucket/data/set/", Dir: dir})
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "record at ") {
		t.Errorf("got %v, want %v", err, ErrVersion)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, b) {
		t.Errorf("the file was changed: %v", err)
	}
}

// The local log grows up to its configured limit.
func TestLocalLog_HasALimit(t *testing.T) {
	r := report(epochLosses(43, 1), 8, 16)
	size := int64(keptHeader + recordHeader + len(r.canonical().encode()))
	for most, fits := range map[int64]bool{size: true, size - 1: false} {
		store := memstore.New()
		denied(store, true)
		l := newLog(t, store, func(c *Config) { c.Dir, c.MaxKept = t.TempDir(), most })
		var refused *ReadOnlyError
		if _, err := l.Add(t.Context(), r); !errors.As(err, &refused) || refused.Kept != fits {
			t.Errorf("%d bytes at most: got %v, want a report that is kept: %t", most, err, fits)
		}
	}
}

// TestLocalLog_WaitsNoLongerThanItsCaller checks that a report is not stored if its request ends
// while it waits for the local log. Flush sends nothing for a canceled caller.
func TestLocalLog_WaitsNoLongerThanItsCaller(t *testing.T) {
	store := memstore.New()
	denied(store, true)
	l := newLog(t, store, func(c *Config) { c.Dir = t.TempDir() })
	reports := epochReports(epochLosses(43, 1))
	keepAll(t, l, reports[0])
	if err := l.kept.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("flush: got %v, want %v", err, context.Canceled)
	}
	var refused *ReadOnlyError
	if err := l.keep(ctx, reports[1].canonical(), objstore.ErrDenied); !errors.As(err, &refused) || refused.Kept || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("keep: got %v, want a report that is lost", err)
	}
	l.kept.unlock()
	wantKept(t, l, 1)
	keepAll(t, l, reports[1])
}

func TestDecodeReport_Refuses(t *testing.T) {
	r := report(epochLosses(43, 1), 8, 12)
	whole := r.canonical().encode()
	plan, n := len(testPlan), 4
	half := func(at int, v uint32) []byte {
		b := bytes.Clone(whole)
		binary.LittleEndian.PutUint32(b[at:], v)
		return reseal(b)
	}
	loss := bytes.Clone(whole)
	binary.LittleEndian.PutUint64(loss[reportHeader+plan+4*n:], math.Float64bits(math.Copysign(0, -1)))
	bad := bytes.Clone(whole)
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{whole[:reportHeader+3], "corrupt: not a report of losses"},
		{append([]byte("MRLOST"), whole[6:]...), "corrupt: not a report of losses"},
		{bad, "corrupt: checksum is wrong"},
		{half(36, 3), "corrupt: counts do not fit its"},
		{half(36, MaxBatch+1), "corrupt: counts do not fit its"},
		{half(40, uint32(plan)+1), "corrupt: counts do not fit its"},
		{half(40, maxPlan+1), "corrupt: counts do not fit its"},
		{half(44, 1), "corrupt: counts do not fit its"},
		{half(reportHeader+plan+4, 0), "corrupt: positions do not ascend"},
		{reseal(loss), "corrupt: position 8: its loss is negative zero"},
		{half(reportHeader+plan+12, 8), "corrupt: report of batch 1 of epoch 3: invalid: position 16 is not in global batch 1"},
		{half(32, 0), "corrupt: report of batch 1 of epoch 3: invalid: global batch has 0 positions"},
	} {
		if _, err := decodeReport(c.b); !errors.Is(err, ErrCorrupt) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestParseName_Refuses(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	n := name{batch: 1234, first: 1, last: MaxBatch - 1, hash: hash}
	if got, err := parseName(n.String()); err != nil || got != n {
		t.Errorf("got %+v, %v, want %+v", got, err, n)
	}
	past, behind := n, n
	past.last, behind.first = MaxBatch, MaxBatch+1
	for _, s := range []string{
		"", n.String() + "x", n.String()[1:], strings.Replace(n.String(), "0001234", "0001334", 1), strings.Replace(n.String(), hash, strings.ToUpper(hash), 1),
		past.String(), behind.String(), strings.Replace(n.String(), "-", "+", 1),
	} {
		if _, err := parseName(s); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", s, err, ErrCorrupt)
		}
	}
}

func TestParseKey_Refuses(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	key := "log/" + hash + "/00000000000000000003/" + name{batch: 7, last: 1, hash: hash}.String()
	if dir, epoch, n, ok := parseKey(key); !ok || dir != "log/"+hash+"/00000000000000000003/" || epoch != 3 || n.batch != 7 {
		t.Errorf("got %s, %d, %+v, %t", dir, epoch, n, ok)
	}
	for _, s := range []string{
		"", "log/" + hash + "/00000000000000000003/", strings.Replace(key, "log", "logs", 1), strings.Replace(key, "ab", "aB", 1), strings.Replace(key, "00003/", "003/", 1),
		strings.Replace(key, "00003/", "x0003/", 1), key + "x", strings.Replace(key, "00000000000000000003", "99999999999999999999", 1),
	} {
		if _, _, _, ok := parseKey(s); ok {
			t.Errorf("%s is taken for a report", s)
		}
	}
}

func TestStored_ReportsFaults(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	add(t, l, epochReports(epochLosses(43, 1))...)
	digest := freeze(t, l, request()).Digest
	snapshot, _ := store.Bytes("data/set/" + roomDir + digest)
	other := bytes.Clone(snapshot)
	other[0] ^= 1
	want := map[string]string{digest: ""}
	for i, c := range []struct {
		b    []byte
		want string
	}{
		{snapshot[:snapshotHeader-1], fmt.Sprintf("corrupt: invalid size of a snapshot: %d bytes", snapshotHeader-1)},
		{snapshot[:snapshotHeader], "corrupt: it is truncated in its plan"},
		{snapshot[:snapshotHeader+len(testPlan)], ""},
		{other, "corrupt: not a snapshot"},
	} {
		name := strings.Repeat(fmt.Sprintf("%02x", i), 32)
		store.Set("data/set/"+roomDir+name, c.b)
		want[name] = c.want
	}
	snapshots, _, err := l.Stored(t.Context())
	if err != nil || len(snapshots) != len(want) {
		t.Fatalf("got %d snapshots, %v, want %d", len(snapshots), err, len(want))
	}
	for _, s := range snapshots {
		if got := fmt.Sprint(s.Fault); want[s.Digest] == "" && (s.Fault != nil || s.Plan != testPlan || s.Generation != testGeneration()) || want[s.Digest] != "" && !strings.HasPrefix(got, want[s.Digest]) {
			t.Errorf("%.8s: got %+v, want %q", s.Digest, s, want[s.Digest])
		}
	}
	dated := report(epochLosses(43, 1), 0, 8)
	dated.Plan = strings.Replace(testPlan, "generation=11", "generation="+testGeneration(), 1)
	ofDigest := newLog(t, memstore.New())
	add(t, ofDigest, dated)
	if _, reports, err := ofDigest.Stored(t.Context()); err != nil || len(reports) != 1 || reports[0].Plan != dated.Plan || reports[0].Generation != testGeneration() || reports[0].Fault != nil {
		t.Errorf("a plan that names its generation: got %+v, %v", reports, err)
	}
	key := logged(store)[0]
	whole, _ := store.Bytes(key)
	planned := bytes.Clone(whole)
	planned[reportHeader] ^= 1
	long := bytes.Clone(whole)
	binary.LittleEndian.PutUint32(long[40:], uint32(len(long)-reportHeader+1))
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{whole[:reportHeader-1], "corrupt: invalid size of a report: 47 bytes"},
		{whole[:reportHeader], "contains a report of another plan"},
		{planned, "contains a report of another plan"},
		{long, "contains a report of another plan"},
	} {
		store.Set(key, c.b)
		_, reports, err := l.Stored(t.Context())
		if err != nil || len(reports) != 1 || !errors.Is(reports[0].Fault, ErrCorrupt) || !strings.Contains(reports[0].Fault.Error(), c.want) || reports[0].Generation != "" {
			t.Errorf("got %+v, %v, want %q", reports, err, c.want)
		}
	}
	for plan, want := range map[string]string{"a=1&generation=" + testGeneration(): testGeneration(), "generation=11": "", "xgeneration=" + testGeneration(): ""} {
		if got := generationOf(plan); got != want {
			t.Errorf("%s: got generation %q, want %q", plan, got, want)
		}
	}
}

// TestStored_EndsWithItsContext checks that Stored does not report objects as damaged when its
// context ends.
func TestStored_EndsWithItsContext(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	add(t, l, epochReports(epochLosses(43, 1))...)
	ctx, cancel := context.WithCancel(t.Context())
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Read {
			return memstore.Fault{Before: cancel, Stall: true}
		}
		return memstore.Fault{}
	})
	if _, _, err := l.Stored(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestSnapshot_RefusesChunksThatItHasNot(t *testing.T) {
	l := newLog(t, memstore.New())
	add(t, l, epochReports(epochLosses(43, 1))...)
	digest := freeze(t, l, request()).Digest
	s := open(t, l, digest)
	for _, chunk := range []int{-1, 6} {
		want := fmt.Sprintf("importance %.12s: no chunk %d: there are 6 chunks", digest, chunk)
		_, err := s.Weights(t.Context(), chunk)
		_, hot := s.Hot(t.Context(), chunk)
		if err == nil || hot == nil || err.Error() != want || hot.Error() != want {
			t.Errorf("chunk %d: got %v and %v, want %s", chunk, err, hot, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Weights(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	for _, first := range [][]uint64{nil, {0}, {1, 43}, {0, 0}, {0, 5, 4, 43}, {0, maxChunkSamples + 1}} {
		if _, err := l.Open(t.Context(), digest, testGeneration(), first); !errors.Is(err, ErrInvalid) {
			t.Errorf("chunks %v: got %v, want %v", first, err, ErrInvalid)
		}
	}
	if _, err := l.Open(t.Context(), digest, testGeneration(), []uint64{0, maxSamples + 1}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "exceed the limits") {
		t.Errorf("too many samples: got %v, want %v", err, ErrInvalid)
	}
}

// broken is a file whose reads fail from an offset on.
type broken struct {
	*bytes.Reader
	from int64
}

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off >= b.from {
		return 0, errStore
	}
	return b.Reader.ReadAt(p, off)
}

func (broken) Close() error { return nil }

func TestParseContent_ReturnsErrorsOfItsFile(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	add(t, l, epochReports(epochLosses(43, 1))...)
	digest := freeze(t, l, request()).Digest
	whole, _ := store.Bytes("data/set/" + roomDir + digest)
	want := snapshotIdentity{digest, testGeneration(), testFirst()}
	for _, from := range []int64{0, snapshotHeader, snapshotHeader + 1} { // header, tables, blocks
		if _, err := parseContent(t.Context(), broken{bytes.NewReader(whole), from}, int64(len(whole)), want); !errors.Is(err, errStore) {
			t.Errorf("unreadable from %d: got %v, want %v", from, err, errStore)
		}
	}
	changed := bytes.Clone(whole)
	changed[snapshotHeader] ^= 1
	if _, err := parseContent(t.Context(), broken{bytes.NewReader(changed), 1 << 40}, int64(len(changed)), want); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "checksum of the plan or the chunk table is wrong") {
		t.Errorf("another plan: got %v, want %v", err, ErrCorrupt)
	}
	b := whole[:snapshotHeader-1]
	if _, err := parseContent(t.Context(), broken{bytes.NewReader(b), 1 << 40}, int64(len(b)), want); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%d bytes: got %v, want %v", len(b), err, ErrCorrupt)
	}
}
