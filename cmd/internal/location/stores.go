package location

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
	"github.com/millrace-data/millrace/s3backend"
)

// Stores opens the stores of addresses. Credentials come from the AWS chain, or from the profile that an address names. Do
// not copy it after its first use.
type Stores struct {
	S3Traceparent bool // traced reads send the traceparent header to the service

	mu       sync.Mutex // guards the fields below
	backends map[backendKey]*sharedBackend
	ended    s3backend.Stats // sums of the closed backends
}

// backendKey identifies a backend. Each dataset with a bandwidth limit has its own.
type backendKey struct {
	cfg     s3backend.Config
	dataset string // dataset with a bandwidth limit; "": no limit, or the limit of an index
}

// sharedBackend is a backend and the number of its users.
type sharedBackend struct {
	*s3backend.Backend
	users int
}

// config returns the backend's configuration for an address.
func (s *Stores) config(l Location) s3backend.Config {
	v := l.Service
	conns, _ := parseMaxConns(v.MaxConns) // checked, or ""
	return s3backend.Config{
		Bucket: l.Bucket, Endpoint: v.Endpoint, Region: v.Region, Profile: v.Profile, PathStyle: v.PathStyle == "true", CAFile: v.CAFile,
		MaxConns: conns, Bandwidth: v.Limit(), Traceparent: s.S3Traceparent,
	}
}

// Place returns a string that identifies the objects of a location across restarts: locations with equal
// places have the same objects under the same keys. It contains only the service parameters that can select
// other objects: endpoint, profile, and region if that determines the endpoint.
func (s *Stores) Place(l Location) string {
	if l.Bucket == "" {
		return l.Shards()
	}
	endpoint, region := s.config(l).Place()
	l.Service = Service{Endpoint: endpoint, Region: region, Profile: l.Service.Profile}
	return l.Shards()
}

// Open returns the store of a location, and a function that closes it. Addresses of one bucket and service share
// connections and the state of the backend. Open makes a missing directory if create is set.
func (s *Stores) Open(l Location, create bool) (objstore.Store, func(), error) {
	if l.Bucket != "" {
		st, done, err := s.openBucket(l)
		if err != nil {
			return nil, nil, fmt.Errorf("open %s: %w", l, err)
		}
		return st, done, nil
	}
	open := dirstore.New
	switch {
	case create:
		open = dirstore.Create
	case l.Links:
		open = dirstore.Follow
	}
	st, err := open(l.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", l, err)
	}
	return st, func() { _ = st.Close() }, nil // nothing was written, so Close cannot lose data
}

// openBucket returns the backend of a bucket, and a function that ends this use of it.
func (s *Stores) openBucket(l Location) (*s3backend.Backend, func(), error) {
	key := backendKey{cfg: s.config(l)}
	if key.cfg.Bandwidth > 0 {
		key.dataset = l.Name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.backends[key]
	if b == nil {
		st, err := s3backend.New(key.cfg)
		if err != nil {
			return nil, nil, err
		}
		b = &sharedBackend{Backend: st}
		if s.backends == nil {
			s.backends = map[backendKey]*sharedBackend{}
		}
		s.backends[key] = b
	}
	b.users++
	return b.Backend, sync.OnceFunc(func() { s.leave(key, b) }), nil
}

// leave ends one use of a backend, and closes the backend after the last one.
func (s *Stores) leave(key backendKey, b *sharedBackend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.users--; b.users > 0 {
		return
	}
	delete(s.backends, key)
	_ = b.Close() // nothing was written, so Close cannot lose data
	s.ended.Add(b.Stats())
}

// Stats returns the sums of all closed backends, so that totals never fall, followed by the counts
// of each open backend. It is empty if no backend was ever open.
func (s *Stores) Stats() []s3backend.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.backends) == 0 && s.ended.Errors == nil {
		return nil
	}
	ended := s.ended
	ended.Errors = maps.Clone(ended.Errors)
	all := []s3backend.Stats{ended}
	for _, b := range s.backends {
		all = append(all, b.Stats())
	}
	return all
}

// With opens the store of a location, calls body, and closes the store.
func (s *Stores) With(ctx context.Context, l Location, create bool, body func(context.Context, objstore.Store) error) error {
	st, done, err := s.Open(l, create)
	if err != nil {
		return err
	}
	defer done()
	return body(ctx, st)
}
