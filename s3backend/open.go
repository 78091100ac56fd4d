package s3backend

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Open implements objstore.Store.
func (b *Backend) Open(ctx context.Context, ref objstore.Ref, offset int64) (_ io.ReadCloser, err error) {
	defer objstore.Wrap(&err, "open %q at %d", ref.Key, offset)
	if offset < 0 {
		return nil, fmt.Errorf("negative offset %d", offset)
	}
	r := &reader{ctx: ctx, backend: b, ref: ref, offset: offset, total: -1}
	size, err := b.pastEnd(ctx, ref, r.connect())
	if size == offset { // an offset exactly at the end is no error
		r.total, err = size, nil
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// reader reads one version of an object sequentially, with as many transfers as necessary.
type reader struct {
	ctx     context.Context
	backend *Backend
	ref     objstore.Ref
	offset  int64
	total   int64

	body     io.Reader // nil between transfers
	transfer context.Context
	end      func() // ends the transfer
	got      int64  // bytes received in this transfer
	wasted   int    // consecutive transfers with too little progress
	failed   error  // final error, returned by the Read after the last bytes
}

// connect begins a transfer at the current offset. The transfer outlives the attempt that began it,
// so it has its own context.
func (r *reader) connect() error {
	b := r.backend
	return b.run(r.ctx, b.policy.header, func(ctx context.Context, _ *attempt) error {
		tctx, cancel := context.WithCancelCause(r.ctx)
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		ans, err := b.get(tctx, r.ref, r.offset, -1)
		switch {
		case !stop() && err == nil:
			err = context.Cause(tctx)
		case err == nil && ans.total < 0:
			err = badAnswer("Content-Length is missing")
		case err == nil && r.total >= 0 && ans.total != r.total:
			err = badAnswer("%d bytes in total instead of %d", ans.total, r.total)
		}
		if err != nil {
			cancel(nil) // also closes the body
			return err
		}
		w := newWatchdog(cancel, b.policy.stall)
		w.rest()
		r.ref.ETag, r.total, r.got = ans.etag, ans.total, 0
		r.body = b.throttle(tctx, &watchedBody{body: ans.body, watchdog: w, policy: &b.policy})
		r.transfer = tctx
		r.end = func() {
			w.rest()
			cancel(nil)
			ans.body.Close()
		}
		return nil
	})
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader ends with io.EOF itself; a wrapped one is a fault
		return n, fmt.Errorf("read %q at %d: %w", r.ref.Key, r.offset, err)
	}
	return n, err
}

func (r *reader) read(p []byte) (int, error) {
	for {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		switch {
		case r.failed != nil:
			return 0, r.failed
		case r.offset == r.total:
			r.drop()
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if r.body == nil {
			if err := r.connect(); err != nil {
				_, err = r.backend.pastEnd(r.ctx, r.ref, err)
				return 0, err
			}
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.total-r.offset)])
		r.offset += int64(n)
		r.got += int64(n)
		if err != nil && r.offset < r.total {
			r.failed = r.broken(err)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// broken ends a failed transfer, and decides whether to begin another one.
func (r *reader) broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = &failure{kind: objstore.ErrShort, detail: fmt.Sprintf("the body ends %d bytes early", r.total-r.offset), retry: true}
	}
	f := classify(settle(r.ctx, r.transfer, err))
	r.drop()
	if cerr := r.ctx.Err(); cerr != nil {
		return cerr
	}
	b := r.backend
	b.count(func(s *Stats) { s.Errors[objstore.Kind(f)]++ })
	if err := b.another(r.ctx, f, &r.wasted, r.got); err != nil {
		return err
	}
	b.count(func(s *Stats) { s.Retries++ })
	return nil
}

func (r *reader) drop() {
	if r.body != nil {
		r.end()
		r.body = nil
	}
}

// Close ends the transfer.
func (r *reader) Close() error {
	r.failed = errors.New("reader is closed")
	r.drop()
	return nil
}
