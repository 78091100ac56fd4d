// Package memstore stores objects in memory. It counts requests, and fails them as a test decides.
// Tests can thus produce every fault of a real store, cheaply and under testing/synctest's clock.
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Store is an in-memory objstore.Store. Its zero value is not usable; call New.
type Store struct {
	mu       sync.Mutex
	objects  map[string][]version // newest last
	serial   uint64
	keepOld  bool
	fault    func(Call) Fault
	stats    Stats
	reads    []Range
	inFlight int

	asking sync.Mutex // held while the script decides one request
}

type version struct {
	object objstore.Object
	data   []byte
}

// New returns an empty store.
func New() *Store {
	return &Store{objects: map[string][]version{}, stats: Stats{Requests: map[Op]int{}}}
}

// NewVersioned returns an empty store that keeps every version of an object under a version id,
// like a bucket with versioning.
func NewVersioned() *Store {
	s := New()
	s.keepOld = true
	return s
}

// Set stores data under key without copying it, and without faults and counts. The caller must not
// write to data afterwards.
func (s *Store) Set(key string, data []byte) objstore.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(key, data)
}

func (s *Store) set(key string, data []byte) objstore.Object {
	s.serial++
	o := objstore.Object{
		Key:      key,
		Size:     int64(len(data)),
		ETag:     "m" + strconv.FormatUint(s.serial, 10),
		Modified: time.Unix(int64(s.serial), 0).UTC(),
	}
	v := version{object: o, data: data}
	if s.keepOld {
		v.object.VersionID = "v" + strconv.FormatUint(s.serial, 10)
		s.objects[key] = append(s.objects[key], v)
	} else {
		s.objects[key] = []version{v}
	}
	return v.object
}

// Bytes returns the content stored under key, and whether it exists. Callers must not write to it.
// The call has no faults and is not counted.
func (s *Store) Bytes(key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.newest(key)
	return v.data, ok
}

// Keys returns all keys in byte order, without counting the call.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys("")
}

func (s *Store) keys(prefix string) []string {
	var keys []string
	for k, vs := range s.objects {
		if len(vs) > 0 && strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func (s *Store) newest(key string) (version, bool) {
	vs := s.objects[key]
	if len(vs) == 0 {
		return version{}, false
	}
	return vs[len(vs)-1], true
}

// find returns the version that ref names. The caller holds s.mu.
func (s *Store) find(ref objstore.Ref) (version, error) {
	v, ok := s.newest(ref.Key)
	if ref.VersionID != "" {
		i := slices.IndexFunc(s.objects[ref.Key], func(v version) bool { return v.object.VersionID == ref.VersionID })
		if ok = i >= 0; ok {
			v = s.objects[ref.Key][i]
		}
	}
	if !ok {
		return version{}, objstore.ErrNotFound
	}
	if ref.ETag != "" && ref.ETag != v.object.ETag {
		return version{}, fmt.Errorf("%w: it is %s, expected %s", objstore.ErrChanged, v.object.ETag, ref.ETag)
	}
	return v, nil
}

// ReadRange implements objstore.RangeReader.
func (s *Store) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) (err error) {
	defer func() {
		if err != nil {
			// The content of dst is undefined after an error. Fill it with wrong bytes,
			// so that no caller relies on it.
			for _, d := range dst {
				spoil(d)
			}
			err = fmt.Errorf("read %q at %d: %w", ref.Key, offset, err)
		}
	}()
	n, err := objstore.CheckRange(offset, dst)
	if err != nil {
		return err
	}
	f, done, err := s.begin(ctx, Call{Op: Read, Key: ref.Key, ETag: ref.ETag, Offset: offset, Length: n})
	if err != nil {
		return err
	}
	defer done()
	s.mu.Lock()
	v, err := s.find(ref)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if have := int64(len(v.data)); offset+n > have {
		return fmt.Errorf("%w: %d bytes wanted, the object has %d", objstore.ErrShort, n, max(0, have-offset))
	}
	if f.Stall || f.Err != nil {
		s.count(min(f.After, n))
		return f.strike(ctx)
	}
	s.count(n)
	data := v.data[offset : offset+n]
	if f.Corrupt != nil {
		data = bytes.Clone(data)
		f.Corrupt(data)
	}
	for _, d := range dst {
		data = data[copy(d, data):]
	}
	return nil
}

func spoil(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}

// Stat implements objstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Object, error) {
	f, done, err := s.begin(ctx, Call{Op: Stat, Key: key})
	if err == nil {
		defer done()
		err = f.strike(ctx)
	}
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		var v version
		if v, err = s.find(objstore.Ref{Key: key}); err == nil {
			return v.object, nil
		}
	}
	return objstore.Object{}, fmt.Errorf("stat %q: %w", key, err)
}

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	f, done, err := s.begin(ctx, Call{Op: List, Key: prefix})
	if err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	defer done()
	s.mu.Lock()
	keys := s.keys(prefix)
	s.mu.Unlock()
	for i, k := range keys {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("list %q: %w", prefix, err)
		}
		if (f.Err != nil || f.Stall) && int64(i) >= f.After {
			break
		}
		s.mu.Lock()
		v, ok := s.newest(k)
		s.mu.Unlock()
		if !ok {
			continue
		}
		if err := visit(v.object); err != nil {
			return err
		}
	}
	if err := f.strike(ctx); err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	return nil
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	o, err := s.put(ctx, key, body, size, cond)
	if err != nil {
		return objstore.Object{}, fmt.Errorf("put %q: %w", key, err)
	}
	return o, nil
}

func (s *Store) put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	if err := objstore.CheckKey(key); err != nil {
		return objstore.Object{}, err
	}
	if size < 0 {
		return objstore.Object{}, fmt.Errorf("negative size %d", size)
	}
	f, done, err := s.begin(ctx, Call{Op: Put, Key: key, Length: size})
	if err != nil {
		return objstore.Object{}, err
	}
	defer done()
	if !f.Applied {
		if err := f.strike(ctx); err != nil {
			return objstore.Object{}, err
		}
	}
	data := make([]byte, size)
	if n, err := body.ReadAt(data, 0); int64(n) < size {
		return objstore.Object{}, fmt.Errorf("%w: the body ends after %d of %d bytes: %w", objstore.ErrShort, n, size, err)
	}
	if f.Corrupt != nil {
		f.Corrupt(data)
	}
	s.mu.Lock()
	o, err := s.putIf(key, data, cond)
	s.mu.Unlock()
	if err == nil && f.Applied {
		err = f.strike(ctx)
	}
	return o, err
}

func (s *Store) putIf(key string, data []byte, cond objstore.Condition) (objstore.Object, error) {
	old, ok := s.newest(key)
	switch {
	case cond.IfAbsent && ok:
		return objstore.Object{}, fmt.Errorf("%w: it exists", objstore.ErrChanged)
	case cond.IfMatch != "" && !ok:
		return objstore.Object{}, fmt.Errorf("%w: it does not exist", objstore.ErrChanged)
	case cond.IfMatch != "" && cond.IfMatch != old.object.ETag:
		return objstore.Object{}, fmt.Errorf("%w: it is %s, expected %s", objstore.ErrChanged, old.object.ETag, cond.IfMatch)
	}
	s.stats.BytesWritten += int64(len(data))
	return s.set(key, data), nil
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	f, done, err := s.begin(ctx, Call{Op: Delete, Key: key})
	if err == nil {
		defer done()
		if !f.Applied {
			err = f.strike(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	s.mu.Lock()
	delete(s.objects, key)
	s.mu.Unlock()
	if f.Applied {
		if err := f.strike(ctx); err != nil {
			return fmt.Errorf("delete %q: %w", key, err)
		}
	}
	return nil
}
