package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/testing/tracingtest"
	"github.com/millrace-data/millrace/internal/tracing"
)

// wire is a client that records the span of each question. One member may never answer.
type wire struct {
	PeerClient
	deaf string // address of that member

	mu   sync.Mutex
	told []string
}

func (s *wire) Read(ctx context.Context, address string, q *peer.Query, dst [][]byte) error {
	header := map[string][]string{}
	tracing.Inject(ctx, header)
	s.mu.Lock()
	s.told = append(s.told, strings.Split(header["Traceparent"][0], "-")[2])
	s.mu.Unlock()
	if address == s.deaf {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return s.PeerClient.Read(ctx, address, q, dst)
}

// TestQuestionsAreSiblings: if a member is late or fails, the question to the next member is a
// sibling of the first question in the trace. The span of the first question contains the reason of
// its failure.
func TestQuestionsAreSiblings(t *testing.T) {
	for name, c := range map[string]struct {
		deaf  string // the address of a member that never answers
		fails string // the reason of failure in the span of the first question
	}{
		"late":    {at(1), errLate.Error()},
		"refuses": {"", peer.CodeOverloaded},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fails(at(1), &peer.RefusalError{Status: 503, Code: peer.CodeOverloaded})
				asked := &wire{deaf: c.deaf}
				w.early = func(c *Cluster) {
					if c.cfg.ID == "gw-0" {
						asked.PeerClient, c.cfg.Client = c.cfg.Client, asked
					}
				}
				a := w.fleet(3)[0]
				spans, tracer := tracingtest.New()
				ctx, request := tracer.Root(t.Context(), "request")
				q := sample(ofOwner(t, a, "gw-1"))
				err := a.Read(ctx, "gw-1", q, [][]byte{make([]byte, 1000)}, func(ctx context.Context, _ bool) error {
					return a.Read(ctx, "gw-2", q, [][]byte{make([]byte, 1000)}, nil)
				})
				if !errors.Is(err, peer.ErrOutdone) {
					t.Fatalf("got %v, want %v", err, peer.ErrOutdone)
				}
				request.End()
				failed := map[string]string{}
				var ids []string
				for _, s := range spans.Named("peer question") {
					failed[s.Said["millrace.peer.member"]] = s.Failed
					ids = append(ids, s.ID)
					if s.Parent != spans.Named("request")[0].ID || s.Said["millrace.chunks"] != "1" || s.Said["millrace.bytes"] != "1000" {
						t.Errorf("got a question below %s that says %v, want it below the request, for 1000 bytes of a chunk", s.Parent, s.Said)
					}
				}
				slices.Sort(ids)
				slices.Sort(asked.told)
				if !slices.Equal(asked.told, ids) {
					t.Errorf("the members were told of spans %v, want each of its question: %v", asked.told, ids)
				}
				if len(failed) != 2 || !strings.Contains(failed["gw-1"], c.fails) || failed["gw-2"] != "" {
					t.Errorf("got questions with failures %v, want %q from gw-1 and none from gw-2", failed, c.fails)
				}
			})
		})
	}
}
