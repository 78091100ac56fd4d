// Package objstore is the interface between Millrace and the stores that keep its bytes: an
// S3-compatible service, a directory, or memory. Its comments are a contract of the behaviour of a
// store, with seven errors by which every store reports failures. One conformance suite
// (objstoretest) tests all stores.
//
// A read always names the version it expects (Ref.ETag). If a store finds another one, it returns
// ErrChanged and delivers nothing, so two versions never mix.
//
// The store is the only layer that retries a failed transfer. Callers do not.
package objstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// The errors of the vocabulary. A store wraps exactly one of these with %w. Callers use errors.Is
// and never compare messages. If the caller's context has ended, the error is the context's own. If
// the store has exceeded a limit of its own, the error is ErrTimeout.
var (
	ErrNotFound    = errors.New("not found")   // no such object
	ErrChanged     = errors.New("changed")     // the object is not the expected version, or a condition on a write failed
	ErrDenied      = errors.New("denied")      // the store refuses the credentials
	ErrThrottled   = errors.New("throttled")   // the store asks for fewer requests
	ErrUnavailable = errors.New("unavailable") // the store is down, unreachable or broken
	ErrTimeout     = errors.New("timeout")     // the store is too slow
	ErrShort       = errors.New("short")       // fewer bytes than requested exist or arrived
)

// Object describes a stored object at one moment.
type Object struct {
	Key       string
	Size      int64
	ETag      string // identity of this content, opaque, without quotes; never empty
	VersionID string // the store's own version id; empty: none
	Modified  time.Time
}

// Ref names one version of one object. An empty ETag accepts any version. It is only for objects
// whose key identifies their content, or for a first read.
type Ref struct {
	Key       string
	ETag      string
	VersionID string // if set, this version is read even if a newer one exists
}

// Ref returns the reference that reads exactly this version.
func (o Object) Ref() Ref { return Ref{Key: o.Key, ETag: o.ETag, VersionID: o.VersionID} }

// RangeReader reads exact ranges into memory that the caller owns.
type RangeReader interface {
	// ReadRange fills every slice of dst in turn with the bytes of ref from offset on, in one
	// request for the sum of their lengths. It returns nil only if all slices were filled from
	// the named version. After an error their content is undefined. If the object ends early,
	// the error is ErrShort; for another version it is ErrChanged. A negative offset or an
	// empty dst is a bug of the caller and an error.
	ReadRange(ctx context.Context, ref Ref, offset int64, dst ...[]byte) error
}

// Reader reads and lists objects.
type Reader interface {
	RangeReader

	// Stat returns the object stored under key, or ErrNotFound.
	Stat(ctx context.Context, key string) (Object, error)

	// List calls visit for every object whose key begins with prefix, in byte order of the keys. It
	// stops if visit returns an error, and returns that error unchanged.
	List(ctx context.Context, prefix string, visit func(Object) error) error
}

// Writer stores objects.
type Writer interface {
	// Put stores size bytes of body under key if cond is met, and otherwise returns ErrChanged.
	// It may read body more than once, and at several offsets concurrently. After an error the
	// object is either the old one or the new one, never a mixture.
	Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond Condition) (Object, error)
}

// Store is the interface to a store. Implementations are safe for concurrent use. They retain no
// arguments after a method returns.
type Store interface {
	Reader
	Writer

	// Open reads one version from offset to its end, in sequence. The reader resumes broken
	// transfers at the offset reached, and returns io.EOF only at the object's true end. The
	// caller closes it. When ctx ends, so does the read.
	Open(ctx context.Context, ref Ref, offset int64) (io.ReadCloser, error)

	// Delete removes key. A missing key is not an error.
	Delete(ctx context.Context, key string) error
}

// LinkLister is a store with symbolic links, which may omit some of them from its lists.
type LinkLister interface {
	// ListLinks does the same as List, but also calls passed for each link that it does not
	// list. Such a link leads out of the store, to nothing, or to a directory; dir reports the
	// last case.
	ListLinks(ctx context.Context, prefix string, visit func(Object) error, passed func(key string, dir bool)) error
}

// Condition is a condition for a Put. The zero value always writes.
type Condition struct {
	IfAbsent bool   // write only if nothing is stored under the key
	IfMatch  string // write only if the stored object has this ETag
}
