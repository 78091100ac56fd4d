package integration_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
)

// TestStoreWays packs, indexes and serves a dataset on a real server with other than the default
// credentials, region or addressing. The batches equal those from a directory.
func TestStoreWays(t *testing.T) {
	const host = "s3.dualstack.eu-west-1.amazonaws.com"
	files, _ := harness.Files(t, 60, 4000)
	batch := func(t *testing.T, store *harness.Store) []byte {
		t.Helper()
		harness.Pack(t, store, files, dataset, small()...)
		return serve(t, store).MustGet(t, batchPath(0, 0)+"?batch_size=32").Body
	}
	want := batch(t, harness.Open(t, "dir"))
	for name, open := range map[string]func(t *testing.T) *harness.Store{
		"temporary credentials": func(t *testing.T) *harness.Store { return harness.Open(t, "minio").Temporary(t) },
		"a region that nobody has named": func(t *testing.T) *harness.Store {
			return harness.OpenMinIO(t, "MINIO_REGION=eu-west-1").With("AWS_REGION=")
		},
		"the bucket in the host's name, temporary credentials": func(t *testing.T) *harness.Store {
			store := harness.OpenMinIO(t, "MINIO_REGION=eu-west-1", "MINIO_DOMAIN="+host)
			proxy := "HTTP_PROXY=" + strings.TrimPrefix(store.Env[0], "AWS_ENDPOINT_URL_S3=") // MinIO accepts requests to a proxy
			return store.With("AWS_REGION=eu-west-1").Temporary(t).With("AWS_ENDPOINT_URL_S3=http://s3.eu-west-1.amazonaws.com", proxy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := batch(t, open(t)); !bytes.Equal(got, want) {
				t.Errorf("got another batch of %d bytes, want the %d bytes of a directory's", len(got), len(want))
			}
		})
	}
}

// TestRefusalsOfRealServers provokes signature errors on real servers, and checks that Millrace's
// errors name the cause.
func TestRefusalsOfRealServers(t *testing.T) {
	for name, c := range map[string]struct {
		open func(t *testing.T) *harness.Store
		want string
	}{
		"MinIO, another region": {func(t *testing.T) *harness.Store {
			return harness.OpenMinIO(t, "MINIO_REGION=eu-west-1")
		}, "the bucket is in region eu-west-1, not in us-east-1: set region= in its address, or AWS_REGION"},
		"MinIO, a forged session token": {func(t *testing.T) *harness.Store {
			store := harness.Open(t, "minio").Temporary(t)
			return store.With("AWS_SESSION_TOKEN=" + strings.Repeat("a", 40))
		}, ""},
		"MinIO, no session token": {func(t *testing.T) *harness.Store {
			return harness.Open(t, "minio").Temporary(t).With("AWS_SESSION_TOKEN=")
		}, ""},
		"versitygw, another secret": {func(t *testing.T) *harness.Store {
			return harness.Open(t, "versitygw").With("AWS_SECRET_ACCESS_KEY=another")
		}, "SignatureDoesNotMatch"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, dst := c.open(t).Objects(t), make([]byte, 1)
			_, opened := objects.Open(t.Context(), objstore.Ref{Key: "a/b"}, 0)
			_, put := objects.Put(t.Context(), "a/b", bytes.NewReader(dst), 1, objstore.Condition{})
			for kind, err := range map[string]error{
				"read": objects.ReadRange(t.Context(), objstore.Ref{Key: "a/b", ETag: "x"}, 0, dst), "open": opened, "put": put,
				"list": objects.List(t.Context(), "", func(objstore.Object) error { return nil }),
			} {
				if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: got %v, want %v: %s", kind, err, objstore.ErrDenied, c.want)
				}
			}
			if _, err := objects.Stat(t.Context(), "a/b"); !errors.Is(err, objstore.ErrDenied) {
				t.Errorf("stat: got %v, want %v", err, objstore.ErrDenied)
			}
		})
	}
}
