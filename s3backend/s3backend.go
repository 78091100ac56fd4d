// Package s3backend is the store seam on minio-go.
package s3backend

import "github.com/millrace-data/millrace/internal/objstore"

// Config of a Backend: standard AWS names. The zero value of a field means its default.
type Config struct {
	Bucket    string
	Endpoint  string // URL; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, then AWS itself
	Region    string
	PathStyle bool
	CAFile    string
	MaxConns  int
}

// New returns the bucket as a store.
func New(cfg Config) (objstore.Store, error) { return nil, nil }
