package harness

import (
	"bytes"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// PutShards uploads the given number of small tar shards below a prefix of the bucket, without an
// index.
func PutShards(t *testing.T, bucket objstore.Store, prefix string, shards int) {
	t.Helper()
	made := indextest.Write(t, memstore.New(), indextest.Spec{Prefix: prefix, Sizes: indextest.Random(3*shards, 0, 3000, 1), Shards: shards})
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i, key := range made.Shards {
		group.Go(func() error {
			_, err := bucket.Put(ctx, key, bytes.NewReader(made.Bodies[i]), int64(len(made.Bodies[i])), objstore.Condition{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TakeIndex removes the index objects below a prefix, and returns their bytes by key.
func TakeIndex(t *testing.T, bucket objstore.Store, prefix string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := bucket.List(t.Context(), prefix+".millrace/", func(o objstore.Object) error {
		body := make([]byte, o.Size)
		if err := bucket.ReadRange(t.Context(), o.Ref(), 0, body); err != nil {
			return err
		}
		all[o.Key] = string(body)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range all {
		if err := bucket.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
