// Package objstore is the seam between Millrace and whatever keeps its bytes: an
// S3-compatible service, a directory, or memory. It fixes what a store must do, in
// comments that read as a contract, and a vocabulary of seven errors in which every
// store reports what went wrong. One conformance suite (objstoretest) holds all stores
// to it.
//
// A read always names the version it expects (Ref.ETag): a store that finds another
// one answers ErrChanged and delivers nothing, so two versions never mix.
//
// The store is the only layer that retries a failed transfer. Callers do not.
package objstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// The error vocabulary. Stores wrap exactly one of these with %w; callers act on
// errors.Is and never on a message. A cancelled or expired context is reported as the
// context's own error where the caller ended it, as ErrTimeout where the store was too
// slow for a limit of its own.
var (
	ErrNotFound    = errors.New("not found")   // no such object
	ErrChanged     = errors.New("changed")     // the object is not the version expected, or a condition on a write failed
	ErrDenied      = errors.New("denied")      // the store refuses our credentials
	ErrThrottled   = errors.New("throttled")   // the store asks us to slow down
	ErrUnavailable = errors.New("unavailable") // the store is down, unreachable or out of order
	ErrTimeout     = errors.New("timeout")     // the store is too slow
	ErrShort       = errors.New("short")       // fewer bytes than asked for exist or came
)

// Object describes a stored object as it was at one moment.
type Object struct {
	Key       string
	Size      int64
	ETag      string // identity of this content, opaque, without quotes; never empty
	VersionID string // the store's own version id, empty where it keeps none
	Modified  time.Time
}

// Ref names one version of one object. An empty ETag accepts whatever version is there:
// only for objects that name their own content, or for a first look.
type Ref struct {
	Key       string
	ETag      string
	VersionID string // when set, this version is read even if a newer one exists
}

// Ref returns the reference that reads exactly this version.
func (o Object) Ref() Ref { return Ref{Key: o.Key, ETag: o.ETag, VersionID: o.VersionID} }

// RangeReader reads exact ranges into memory that the caller owns.
type RangeReader interface {
	// ReadRange fills every slice of dst in turn with the bytes of ref from offset on:
	// one request for len(dst[0])+len(dst[1])+... bytes. It returns nil only when all
	// of them were filled from the version named; on an error their content is
	// undefined. Object ends early: ErrShort. Another version: ErrChanged.
	// A negative offset or nothing to fill is the caller's bug and an error.
	ReadRange(ctx context.Context, ref Ref, offset int64, dst ...[]byte) error
}

// Store is everything Millrace asks of a store. Implementations are safe for
// concurrent use; no method keeps a reference to its arguments after it returns.
type Store interface {
	RangeReader

	// Stat returns what is stored under key, or ErrNotFound.
	Stat(ctx context.Context, key string) (Object, error)

	// List calls visit for every object whose key begins with prefix, in byte order of
	// the keys, until visit returns an error, which List then returns as it is.
	List(ctx context.Context, prefix string, visit func(Object) error) error

	// Open reads one version from offset to its end, in sequence. The reader resumes
	// broken transfers at the offset reached and returns io.EOF only at the object's
	// true end. The caller closes it. ctx ends the whole read.
	Open(ctx context.Context, ref Ref, offset int64) (io.ReadCloser, error)

	// Put stores size bytes of body under key if cond allows it, else ErrChanged. body may
	// be read more than once and at several places at once. After an error the
	// object is either the old one or the new one, never a mixture.
	Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond Condition) (Object, error)

	// Delete removes key. A key that is not there is no error.
	Delete(ctx context.Context, key string) error
}

// LinkLister is a store that has links, and passes over some of them.
type LinkLister interface {
	// ListLinks is List, and calls passed for each link that it passes over: one that leads out of the store or
	// nowhere, or to a directory. dir says that it leads to a directory.
	ListLinks(ctx context.Context, prefix string, visit func(Object) error, passed func(key string, dir bool)) error
}

// Condition limits a Put. The zero value always writes.
type Condition struct {
	IfAbsent bool   // only when nothing is stored under the key
	IfMatch  string // only when the stored object has this ETag
}
