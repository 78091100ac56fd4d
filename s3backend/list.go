package s3backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Stat implements objstore.Store.
func (b *Backend) Stat(ctx context.Context, key string) (o objstore.Object, err error) {
	defer objstore.Wrap(&err, "stat %q", key)
	o, _, err = b.head(ctx, objstore.Ref{Key: key})
	return o, err
}

// head returns an object, and the token with which Put stored it, if there is one.
func (b *Backend) head(ctx context.Context, ref objstore.Ref) (o objstore.Object, token string, err error) {
	err = b.run(ctx, b.policy.header, func(ctx context.Context, _ *attempt) error {
		resp, err := b.send(ctx, http.MethodHead, objstore.Ref{Key: ref.Key, VersionID: ref.VersionID}, make(http.Header, 8))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		modified, err := http.ParseTime(resp.Header.Get("Last-Modified"))
		o = objstore.Object{Key: ref.Key, Size: resp.ContentLength, ETag: etagOf(resp), VersionID: resp.Header.Get("X-Amz-Version-Id"), Modified: modified}
		token = resp.Header.Get("X-Amz-Meta-" + tokenName)
		if resp.StatusCode != http.StatusOK || err != nil || o.ETag == "" || o.Size < 0 {
			return badAnswer("status %d, or ETag, length or time is missing", resp.StatusCode)
		}
		return nil
	})
	if f, ok := errors.AsType[*failure](err); ok && f.code == "NoSuchBucket" {
		err = fmt.Errorf("bucket %s: %w", b.cfg.Bucket, err)
	}
	return o, token, err
}

// List implements objstore.Store. An interrupted list resumes after the last key.
func (b *Backend) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	var stop error // error returned by visit
	last := ""
	ask := soundPrefix(prefix)
	err := b.run(ctx, b.policy.header, func(ctx context.Context, a *attempt) error {
		opts := minio.ListObjectsOptions{Prefix: ask, Recursive: true, StartAfter: last, FetchOwner: new(bool)}
		for info := range b.endpoint.Load().core.ListObjectsIter(ctx, b.cfg.Bucket, opts) {
			a.watchdog.rest() // visit may take long, but the next page must not
			switch {
			case info.Err != nil:
				return info.Err
			case info.Key <= last:
				return badAnswer("key %q comes after %q", info.Key, last)
			}
			last = info.Key
			if !strings.HasPrefix(info.Key, prefix) {
				continue
			}
			a.got += b.policy.progress
			if stop = visit(objstore.Object{Key: info.Key, Size: info.Size, ETag: info.ETag, VersionID: info.VersionID, Modified: info.LastModified}); stop != nil {
				return nil
			}
			a.watchdog.arm(b.policy.header)
		}
		return ctx.Err()
	})
	if stop != nil {
		return stop
	}
	if errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("list %q: bucket %s: %w", prefix, b.cfg.Bucket, err)
	}
	if err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	return nil
}

// soundPrefix truncates a prefix before its first empty or dotted element, since some services
// reject such prefixes. The caller skips the additional keys.
func soundPrefix(prefix string) string {
	at := 0
	for element := range strings.SplitSeq(prefix, "/") {
		last := at+len(element) == len(prefix)
		if element == "." || element == ".." || element == "" && !last {
			return prefix[:at]
		}
		at += len(element) + 1
	}
	return prefix
}

// Delete implements objstore.Store.
func (b *Backend) Delete(ctx context.Context, key string) (err error) {
	defer objstore.Wrap(&err, "delete %q", key)
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	err = b.run(ctx, b.policy.write, func(ctx context.Context, _ *attempt) error {
		return b.endpoint.Load().core.RemoveObject(ctx, b.cfg.Bucket, key, minio.RemoveObjectOptions{})
	})
	if errors.Is(err, objstore.ErrNotFound) && classify(err).code != "NoSuchBucket" {
		return nil
	}
	return err
}
