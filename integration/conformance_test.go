package integration_test

import (
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/objstoretest"
)

// TestStoreConformance holds the backend on real servers to the contract that the in-memory
// store and the directory pass too.
func TestStoreConformance(t *testing.T) {
	for _, kind := range []string{"minio", "versitygw"} {
		t.Run(kind, func(t *testing.T) {
			objects := harness.Open(t, kind).Objects(t)
			objstoretest.Run(t, func(*testing.T) objstore.Store { return objects })
		})
	}
}
