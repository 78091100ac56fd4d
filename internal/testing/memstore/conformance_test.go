package memstore_test

import (
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/objstoretest"
)

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store { return memstore.New() })
}

func TestConformanceVersioned(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store { return memstore.NewVersioned() })
}
