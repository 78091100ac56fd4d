package memstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Open implements objstore.Store. The request ends when the reader is closed.
func (s *Store) Open(ctx context.Context, ref objstore.Ref, offset int64) (io.ReadCloser, error) {
	r, err := s.open(ctx, ref, offset)
	if err != nil {
		return nil, fmt.Errorf("open %q at %d: %w", ref.Key, offset, err)
	}
	return r, nil
}

func (s *Store) open(ctx context.Context, ref objstore.Ref, offset int64) (_ io.ReadCloser, err error) {
	if offset < 0 {
		return nil, fmt.Errorf("negative offset %d", offset)
	}
	f, done, err := s.begin(ctx, Call{Op: Open, Key: ref.Key, ETag: ref.ETag, Offset: offset, Length: -1})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	if f.After == 0 {
		if err := f.strike(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	v, err := s.find(ref)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if offset > int64(len(v.data)) {
		return nil, fmt.Errorf("%w: the object has %d bytes", objstore.ErrShort, len(v.data))
	}
	data := v.data[offset:]
	if f.Corrupt != nil {
		data = bytes.Clone(data)
		f.Corrupt(data)
	}
	if f.After > 0 && (f.Err != nil || f.Stall) {
		data = data[:min(f.After, int64(len(data)))]
	}
	return &reader{ctx: ctx, store: s, key: ref.Key, data: data, fault: f, done: done}, nil
}

type reader struct {
	ctx    context.Context
	store  *Store
	key    string
	data   []byte
	fault  Fault
	done   func()
	closed bool
}

func (r *reader) Read(p []byte) (int, error) {
	if r.closed {
		return 0, errors.New("read of a closed object")
	}
	if err := r.ctx.Err(); err != nil {
		return 0, fmt.Errorf("read %q: %w", r.key, err)
	}
	if len(r.data) == 0 {
		if err := r.fault.strike(r.ctx); err != nil {
			return 0, fmt.Errorf("read %q: %w", r.key, err)
		}
		return 0, io.EOF
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	r.store.count(int64(n))
	return n, nil
}

func (r *reader) Close() error {
	if !r.closed {
		r.closed = true
		r.done()
	}
	return nil
}
