package top

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
)

// TestFleet_DoesNotWaitForSlowAnswers neither from a name server nor from a gateway. The next poll has the late answer.
func TestFleet_DoesNotWaitForSlowAnswers(t *testing.T) {
	let := make(chan struct{})
	serve := func(wait bool) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if wait {
				<-let
			}
			w.Write([]byte(`{"counters":{"millrace_ready":1}}`))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	quick, slow := serve(false), serve(true)
	f, err := NewFleet([]string{quick, slow, "http://named:1"})
	if err != nil {
		t.Fatal(err)
	}
	nobody := errors.New("no such name")
	f.sources[2].each = func(ctx context.Context) ([]client.Gateway, error) { <-let; return nil, nobody }
	defer f.Close()
	const most = 300 * time.Millisecond
	start := time.Now()
	polls := f.Poll(t.Context(), most)
	if took := time.Since(start); took > 10*most || len(polls) != 3 || polls[0].Err != nil || !errors.Is(polls[1].Err, errLate) || !errors.Is(polls[2].Err, errLate) {
		t.Fatalf("after %v: got %+v, want one answer of three", took, polls)
	}
	close(let)
	polls = f.Poll(t.Context(), attemptTime)
	if len(polls) != 3 || polls[1].Gateway != slow || polls[1].Err != nil || polls[1].Stats.value("ready") != 1 || !errors.Is(polls[2].Err, nobody) {
		t.Errorf("then: got %+v, want two answers and an error", polls)
	}
}

func TestCompareNames(t *testing.T) {
	names := []string{"http://gw-10:1", "http://gw-9:1", "http://gw-1:1", "http://gw-100:1", "http://gw:1"}
	slices.SortFunc(names, compareNames)
	if want := []string{"http://gw:1", "http://gw-1:1", "http://gw-9:1", "http://gw-10:1", "http://gw-100:1"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
