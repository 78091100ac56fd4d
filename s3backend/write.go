package s3backend

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/internal/objstore"
)

// tokenName is the name of the user metadata that distinguishes a write of this program from other
// writes.
const tokenName = "Millrace-Put"

// Put implements objstore.Store. The returned Object has no modification time.
func (b *Backend) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (_ objstore.Object, err error) {
	defer objstore.Wrap(&err, "put %q", key)
	if err := objstore.CheckKey(key); err != nil {
		return objstore.Object{}, err
	}
	if size < 0 {
		return objstore.Object{}, fmt.Errorf("negative size %d", size)
	}
	token := rand.Text()
	named := minio.PutObjectOptions{UserMetadata: map[string]string{tokenName: token}}
	store := b.putWhole
	if size > b.cfg.PartSize {
		store = b.putParts
	}
	o, lost, err := store(ctx, key, body, size, named, cond)
	if err == nil {
		return o, nil
	}
	if lost { // a response was lost, so the write that seems to have failed may have succeeded
		if found, theirs, herr := b.head(ctx, objstore.Ref{Key: key}); herr == nil && theirs == token {
			return found, nil
		}
	}
	if f, ok := errors.AsType[*failure](err); ok && f.code == "NoSuchKey" && cond.IfMatch != "" { // some services use this code for it
		err = &failure{kind: objstore.ErrChanged, detail: "it does not exist"}
	}
	return objstore.Object{}, err
}

// conditional adds the headers of a conditional write to opts.
func conditional(opts minio.PutObjectOptions, cond objstore.Condition) minio.PutObjectOptions {
	if cond.IfAbsent {
		opts.SetMatchETagExcept("*")
	}
	if cond.IfMatch != "" {
		opts.SetMatchETag(cond.IfMatch)
	}
	return opts
}

// putWhole stores the body with one request.
func (b *Backend) putWhole(ctx context.Context, key string, body io.ReaderAt, size int64, named minio.PutObjectOptions, cond objstore.Condition) (o objstore.Object, lost bool, err error) {
	opts := conditional(named, cond)
	return b.store(ctx, b.policy.upload, key, size, func(ctx context.Context, a *attempt) (minio.UploadInfo, error) {
		src := newUploadBody(body, 0, size, a.watchdog, b.policy)
		info, err := b.endpoint.Load().core.PutObject(ctx, b.cfg.Bucket, key, src, size, "", "", opts)
		return info, src.detach(err)
	})
}

// store makes attempts of the request that stores an object. lost reports that one of them may have
// taken effect although its response was lost.
func (b *Backend) store(ctx context.Context, first time.Duration, key string, size int64, send func(context.Context, *attempt) (minio.UploadInfo, error)) (o objstore.Object, lost bool, err error) {
	err = b.run(ctx, first, func(actx context.Context, a *attempt) error {
		info, err := send(actx, a)
		if err == nil && info.ETag == "" {
			err = badAnswer("ETag is missing")
		}
		if err = settle(ctx, actx, err); err != nil {
			lost = lost || classify(err).lost
			return err
		}
		o = objstore.Object{Key: key, Size: size, ETag: info.ETag, VersionID: info.VersionID}
		return nil
	})
	return o, lost, err
}

// uploadsAtOnce limits the concurrent part uploads of one Put.
const uploadsAtOnce = 4

// putParts uploads the body in parts. It then completes the object if the condition holds.
func (b *Backend) putParts(ctx context.Context, key string, body io.ReaderAt, size int64, named minio.PutObjectOptions, cond objstore.Condition) (o objstore.Object, lost bool, err error) {
	part := max(b.cfg.PartSize, (size+maxParts-1)/maxParts)
	var id string
	err = b.run(ctx, b.policy.write, func(ctx context.Context, _ *attempt) error {
		var err error
		id, err = b.endpoint.Load().core.NewMultipartUpload(ctx, b.cfg.Bucket, key, named)
		return err
	})
	if err != nil {
		return o, false, err
	}
	done := make([]minio.CompletePart, (size+part-1)/part)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(uploadsAtOnce)
	for i := range done {
		g.Go(func() error {
			at := int64(i) * part
			var err error
			done[i], err = b.putPart(gctx, key, id, i+1, body, at, min(part, size-at))
			return err
		})
	}
	if err = g.Wait(); err == nil {
		opts := conditional(minio.PutObjectOptions{}, cond)
		o, lost, err = b.store(ctx, b.policy.write, key, size, func(ctx context.Context, _ *attempt) (minio.UploadInfo, error) {
			return b.endpoint.Load().core.CompleteMultipartUpload(ctx, b.cfg.Bucket, key, id, done, opts)
		})
	}
	if err != nil && !lost {
		b.abort(ctx, key, id)
	}
	if err != nil && !errors.Is(err, ctx.Err()) {
		err = interrupted(ctx, err)
	}
	return o, lost, err
}

func (b *Backend) putPart(ctx context.Context, key, id string, number int, body io.ReaderAt, at, size int64) (minio.CompletePart, error) {
	var part minio.ObjectPart
	err := b.run(ctx, b.policy.upload, func(ctx context.Context, a *attempt) error {
		src := newUploadBody(body, at, size, a.watchdog, b.policy)
		var err error
		part, err = b.endpoint.Load().core.PutObjectPart(ctx, b.cfg.Bucket, key, id, number, src, size, minio.PutObjectPartOptions{})
		if err = src.detach(err); err != nil {
			return err
		}
		if part.ETag == "" {
			return badAnswer("ETag is missing")
		}
		a.got = size
		return nil
	})
	if err != nil {
		return minio.CompletePart{}, fmt.Errorf("part %d: %w", number, err)
	}
	return minio.CompletePart{PartNumber: number, ETag: part.ETag}, nil
}

// abort frees the storage of the parts of a failed Put, even after ctx has ended. Its errors do not
// affect the result, since the bucket's lifecycle rules remove remaining parts.
func (b *Backend) abort(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.policy.header)
	defer cancel()
	b.count(func(s *Stats) { s.Requests++ })
	if err := b.endpoint.Load().core.AbortMultipartUpload(ctx, b.cfg.Bucket, key, id); err != nil {
		b.count(func(s *Stats) { s.Errors[objstore.Kind(classify(err))]++ })
	}
}

// uploadBody is the section of the caller's body that one request sends. The transport may still
// read after the request has ended, but after detach it cannot read the caller's body.
type uploadBody struct {
	mu       sync.Mutex
	section  *io.SectionReader
	size     int64
	watchdog *watchdog
	policy   retryPolicy
	err      error // error of reading the body
	detached bool
}

func newUploadBody(body io.ReaderAt, at, size int64, w *watchdog, policy retryPolicy) *uploadBody {
	s := &uploadBody{section: io.NewSectionReader(body, at, size), size: size, watchdog: w, policy: policy}
	if size == 0 {
		w.arm(policy.write)
	}
	return s
}

func (s *uploadBody) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.detached {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := s.section.Read(p)
	at, _ := s.section.Seek(0, io.SeekCurrent)
	switch {
	case errors.Is(err, io.EOF) && at < s.size:
		s.err = short("the body has %d of %d bytes", at, s.size)
		return n, s.err
	case err != nil && !errors.Is(err, io.EOF):
		s.err = err
	}
	wait := s.policy.upload
	if at >= s.size {
		wait = s.policy.write
	}
	s.watchdog.arm(wait)
	return n, err
}

// detach ends the use of the body and returns the error to report.
func (s *uploadBody) detach(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = true
	s.watchdog.rest()
	if err != nil && s.err != nil {
		return bodyFailure(s.err)
	}
	return err
}

// bodyFailure returns the error for a failure of the caller's body, which is never retried.
func bodyFailure(err error) error {
	f := &failure{detail: "read the body: " + err.Error(), cause: err}
	if known, ok := errors.AsType[*failure](err); ok {
		*f = *known
	}
	f.own = true
	return f
}
