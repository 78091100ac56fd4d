package harness

import (
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
)

// records maps the names of running tests to their logs.
var records sync.Map //nolint:gochecknoglobals // tests of one process share it

// Record returns a log whose violations fail the test. Gateways that the test and its subtests
// start after this call add every batch that Gateway's methods receive. plan determines the
// expected responses; at least one event is required. If plan is nil, each dataset that the test
// packs after this call has its own plan. For other generations the first response for a URL counts
// as correct.
func Record(t testing.TB, plan history.Plan) *history.Log {
	t.Helper()
	l := history.New(plan)
	records.Store(t.Name(), l)
	t.Cleanup(func() {
		records.Delete(t.Name())
		if err := l.Err(); err != nil {
			t.Error(err)
		} else if plan != nil && l.Events() == 0 && !t.Failed() {
			t.Error("the history has no event")
		}
	})
	return l
}

// Recorded returns the log of a test or of its nearest parent with a log, or nil.
func Recorded(t testing.TB) *history.Log {
	t.Helper()
	for name := t.Name(); name != "."; name = path.Dir(name) {
		if l, ok := records.Load(name); ok {
			return l.(*history.Log)
		}
	}
	return nil
}

// Packed computes the batches of a dataset from its tar shards.
func Packed(t testing.TB, store *Store, dataset string) *history.Packed {
	t.Helper()
	var objects objstore.Store
	var err error
	if store.Path != "" {
		objects, err = dirstore.New(store.Path)
	} else {
		objects = store.Objects(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := history.ReadPacked(t.Context(), objects, dataset, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// note adds a response to the gateway's log if it is a batch in the form that the URL names.
func (g *Gateway) note(where string, start time.Time, r Response, err error, header []string) {
	if g.log == nil || !strings.Contains(where, "/batch") || strings.Contains(where, "/manifest") || slices.Contains(header, "Accept") {
		return
	}
	g.log.Add(history.Answer("client of "+g.URL, where, start, r.Status, r.Header, r.Body, err))
}
