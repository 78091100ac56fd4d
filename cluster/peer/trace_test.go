package peer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/tracingtest"
	"github.com/millrace-data/millrace/internal/tracing"
)

// direct sends requests to a server without a connection. The answer is complete when RoundTrip
// returns.
type direct struct{ *Server }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	out := httptest.NewRecorder()
	d.ServeHTTP(out, r)
	return out.Result(), nil
}

// TestAnswersAreOfTheAskersTrace: the span of an answer is below that of the question, and the
// waits of the answering gateway are below the answer. If the question is not recorded, the answer
// is not recorded either.
func TestAnswersAreOfTheAskersTrace(t *testing.T) {
	spans, tracer := tracingtest.New()
	shelf := newShelf(2, 1000)
	shelf.answer = func(ctx context.Context, _ *Query) error {
		_, span := tracing.Start(ctx, "wait for chunks")
		span.End()
		return nil
	}
	cfg := serverOf(shelf)
	cfg.Trace = tracer
	c := asker(t, func(c *ClientConfig) { c.Transport = direct{NewServer(cfg)} })
	q, dst, want := shelf.question(3, 100)
	ask := func(ctx context.Context) {
		if err := c.Read(ctx, "b:1", q, dst); err != nil {
			t.Fatal(err)
		}
		same(t, dst, want)
	}
	ask(t.Context())
	if got := spans.Spans(); len(got) != 0 {
		t.Errorf("got %v of a question that is not recorded, want nothing", got)
	}
	ctx, question := tracer.Root(t.Context(), "question")
	ask(ctx)
	q.Generation = "other"
	if c.Read(ctx, "b:1", q, dst) == nil {
		t.Error("got an answer of another generation")
	}
	question.End()
	answers, above := spans.Named("peer answer"), spans.Named("question")[0]
	if len(answers) != 2 || answers[0].Parent != above.ID || answers[0].Trace != above.Trace {
		t.Fatalf("got answers %v, want two below %s of trace %s", answers, above.ID, above.Trace)
	}
	if said := answers[0].Said; said["millrace.peer.member"] != "a" || said["millrace.dataset"] != testDataset || said["millrace.chunks"] != "2" || said["millrace.bytes"] != "600" {
		t.Errorf("got an answer that says %v, want 600 bytes of two chunks of %s for a", said, testDataset)
	}
	if waits := spans.Named("wait for chunks"); waits[0].Parent != answers[0].ID {
		t.Errorf("got a wait below %s, want it below the answer", waits[0].Parent)
	}
	if answers[0].Failed != "" || !strings.Contains(answers[1].Failed, ErrNotServed.Error()) {
		t.Errorf("got failures %q and %q, want none and %v", answers[0].Failed, answers[1].Failed, ErrNotServed)
	}
}
