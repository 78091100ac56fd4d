package dirstore_test

import (
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/objstoretest"
)

func newStore(t *testing.T) *dirstore.Store {
	t.Helper()
	leaks.Check(t)
	s, err := dirstore.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestConformanceOfFollow: a store that follows links must meet the same contract.
func TestConformanceOfFollow(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store {
		s, err := dirstore.Follow(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Store { return newStore(t) })
}
