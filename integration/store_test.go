package integration_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
)

// TestServersHonourConditions checks, through the backend, two guarantees of real servers that
// everything else relies on: a read can require a version, and a write can be conditional.
func TestServersHonourConditions(t *testing.T) {
	for _, kind := range []string{"minio", "versitygw"} {
		t.Run(kind, func(t *testing.T) {
			objects := harness.Open(t, kind).Objects(t)
			ctx := t.Context()
			put := func(text string, cond objstore.Condition) (objstore.Object, error) {
				return objects.Put(ctx, "a/b", bytes.NewReader([]byte(text)), int64(len(text)), cond)
			}
			first, err := put("first", objstore.Condition{IfAbsent: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := put("other", objstore.Condition{IfAbsent: true}); !errors.Is(err, objstore.ErrChanged) {
				t.Errorf("second write if absent: got %v, want %v", err, objstore.ErrChanged)
			}
			if _, err := put("later", objstore.Condition{IfMatch: first.ETag}); err != nil {
				t.Errorf("write if it matches: %v", err)
			}
			if _, err := put("again", objstore.Condition{IfMatch: first.ETag}); !errors.Is(err, objstore.ErrChanged) {
				t.Errorf("write against an old version: got %v, want %v", err, objstore.ErrChanged)
			}
			buf := make([]byte, 5)
			if err := objects.ReadRange(ctx, first.Ref(), 0, buf); !errors.Is(err, objstore.ErrChanged) {
				t.Errorf("read of an old version: got %v, want %v", err, objstore.ErrChanged)
			}
			now, err := objects.Stat(ctx, "a/b")
			if err != nil {
				t.Fatal(err)
			}
			if err := objects.ReadRange(ctx, now.Ref(), 0, buf[:2], buf[2:]); err != nil || string(buf) != "later" {
				t.Errorf("read of the current version: got %q, %v, want %q", buf, err, "later")
			}
			if err := objects.ReadRange(context.Background(), objstore.Ref{Key: "none"}, 0, buf); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("read of nothing: got %v, want %v", err, objstore.ErrNotFound)
			}
		})
	}
}
