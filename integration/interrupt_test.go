package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestInterruptLeavesOutTheLameDuckTimeWhereNobodyReads sends signals to a real gateway process.
// The lame-duck time is far longer than the test, so a gateway either exits at once or clearly
// keeps serving.
func TestInterruptLeavesOutTheLameDuckTimeWhereNobodyReads(t *testing.T) {
	files, _ := harness.Files(t, 100, 2000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, small()...)
	quiet := func() { time.Sleep(1500 * time.Millisecond) } // longer than the required second without a request
	for name, c := range map[string]struct {
		batches int // batches that are read before the signal
		signal  func(p *harness.Process)
		atOnce  bool
		cluster bool
	}{
		"nobody came, SIGINT":  {0, (*harness.Process).Interrupt, true, false},
		"nobody came, SIGTERM": {0, (*harness.Process).Terminate, false, false},
		"one batch, SIGINT":    {1, (*harness.Process).Interrupt, true, false}, // like a person's curl
		"a reader, SIGINT":     {3, (*harness.Process).Interrupt, false, false},
		"in a cluster, SIGINT": {0, (*harness.Process).Interrupt, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--lame-duck", "10m"}
			if c.cluster {
				args = append(args, "--cluster", "job-a", "--join", "127.0.0.1", "--peer-listen", harness.FreeAddress(t), "--peer-insecure")
			}
			g := serve(t, store, args...)
			var asked time.Time
			for m := range c.batches {
				g.MustGet(t, batchPath(0, m)+share(16, 0, 1))
				asked = time.Now()
				if m+1 < c.batches {
					time.Sleep(300 * time.Millisecond) // like a reader's pause
				}
			}
			quiet()
			c.signal(g.Process)
			fault := ""
			if silent := time.Since(asked); c.batches > 1 && silent > 5*time.Second { // the gateway may assume by then that the reader is gone
				fault = fmt.Sprintf("the reader was silent for %v", silent)
			}
			if !harness.Judge(t, fault) {
				return
			}
			ended := func(why string) {
				t.Helper()
				select {
				case <-g.Ended():
				case <-time.After(30 * time.Second):
					t.Fatalf("%s: it serves on, want its end", why)
				}
			}
			if c.atOnce {
				ended("after the signal")
				return
			}
			// Send no readiness probe yet: such a request would keep the gateway from
			// exiting at once.
			g.Ready(t, func(context.Context) error {
				if !strings.Contains(g.Log(), `"message":"draining"`) {
					return errors.New("it does not drain")
				}
				return nil
			})
			select {
			case <-g.Ended():
				t.Fatal("it has ended, want the lame-duck time")
			case <-time.After(2 * time.Second):
			}
			// Not ready but still serving: the lame-duck time has begun.
			g.Ready(t, func(ctx context.Context) error {
				r, err := harness.Do(ctx, http.MethodGet, g.URL+"/readyz")
				if err != nil {
					t.Fatalf("the gateway has ended: %v", err)
				}
				if r.Status != http.StatusServiceUnavailable {
					return fmt.Errorf("readyz: %d", r.Status)
				}
				return nil
			})
			if r := g.MustGet(t, batchPath(0, 0)); r.Status != http.StatusOK {
				t.Errorf("while it is a lame duck: got status %d, want 200", r.Status)
			}
			select {
			case <-g.Ended():
				t.Error("it has ended, want the lame-duck time")
			default:
			}
			g.Interrupt()
			ended("after the second signal")
		})
	}
}
