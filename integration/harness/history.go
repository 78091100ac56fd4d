package harness

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
)

// records are the logs of running tests, by test.
var records sync.Map

// Record returns a log that the test fails with. Gateways that the test starts from now on add to it all batches that they answer to
// the methods of Gateway. A plan says what is right, and requires an event; with nil it is the first answer for a URL.
func Record(t testing.TB, plan history.Plan) *history.Log {
	t.Helper()
	l := history.New(plan)
	records.Store(t, l)
	t.Cleanup(func() {
		records.Delete(t)
		if err := l.Err(); err != nil {
			t.Error(err)
		} else if plan != nil && l.Events() == 0 && !t.Failed() {
			t.Error("the history has no event")
		}
	})
	return l
}

// recordOf returns the log of a test, nil if it has none.
func recordOf(t testing.TB) *history.Log {
	l, _ := records.Load(t)
	found, _ := l.(*history.Log)
	return found
}

// Packed computes what the batches of a dataset of tar shards have to be, from the shards.
func Packed(t *testing.T, store *Store, dataset string) *history.Packed {
	t.Helper()
	var objects objstore.Store
	var err error
	if store.Name == "dir" {
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

// note adds an answer to the gateway's log, if it is of a batch and in the form that the URL names.
func (g *Gateway) note(path string, start time.Time, r Response, err error, header []string) {
	if g.log == nil || !strings.Contains(path, "/batch") || strings.Contains(path, "/manifest") || slices.Contains(header, "Accept") {
		return
	}
	g.log.Add(history.Answer("client of "+g.URL, path, start, r.Status, r.Header, r.Body, err))
}
