package location

import (
	"context"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
	"github.com/millrace-data/millrace/s3backend"
)

// Stores say how S3 stores are reached. Credentials come from the AWS chain alone.
type Stores struct {
	Endpoint  string // URL of the service; "": the environment's, then AWS
	Region    string // of the bucket; "": the environment's
	PathStyle bool   // buckets are addressed in the path, not in the host name
	CAFile    string // PEM file with the authorities to trust; "": the system's
	Conns     int    // connections at most; 0: the backend's choice

	Traceparent bool // traced reads tell the service of their spans
}

// Open returns the store of a location, and what closes it. A directory is made if create is set.
func (s *Stores) Open(l Location, create bool) (objstore.Store, func(), error) {
	if l.Bucket != "" {
		st, err := s3backend.New(s3backend.Config{
			Bucket: l.Bucket, Endpoint: s.Endpoint, Region: s.Region, PathStyle: s.PathStyle, CAFile: s.CAFile, MaxConns: s.Conns, Traceparent: s.Traceparent,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("open %s: %w", l, err)
		}
		return st, closer(st), nil
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
	return st, closer(st), nil
}

// closer closes a store that has something to close.
func closer(st objstore.Store) func() {
	return func() {
		if c, ok := st.(io.Closer); ok {
			_ = c.Close() // nothing was written that Close could lose
		}
	}
}

// With opens the store of a location for the time of body.
func (s *Stores) With(ctx context.Context, l Location, create bool, body func(context.Context, objstore.Store) error) error {
	st, done, err := s.Open(l, create)
	if err != nil {
		return err
	}
	defer done()
	return body(ctx, st)
}
