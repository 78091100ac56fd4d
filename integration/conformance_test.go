package integration_test

import (
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/objstoretest"
)

// TestStoreConformance runs the store contract against the backend on real servers. The in-memory
// store and the directory pass the same contract.
func TestStoreConformance(t *testing.T) {
	for _, kind := range []string{"minio", "versitygw"} {
		t.Run(kind, func(t *testing.T) {
			objects := harness.Open(t, kind).Objects(t)
			objstoretest.Run(t, func(*testing.T) objstore.Store { return objects })
		})
	}
}
