package peer

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// purse is a budget that records its highest use.
type purse struct {
	mu               sync.Mutex
	total, now, most int64
	back             chan struct{} // one token each time that memory is released
}

func (p *purse) reserve(n int64) (func(), bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now+n > p.total {
		return nil, false
	}
	p.now += n
	p.most = max(p.most, p.now)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now -= n
		p.back <- struct{}{}
	}, true
}

// post sends a body with the headers of a gateway, and returns the status and body of the response.
func post(t *testing.T, address, path, member string, body []byte) (status int, said string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		ClusterHeader: testCluster, VersionHeader: strconv.Itoa(Version), MemberHeader: member, DeadlineHeader: "1000",
	} {
		r.Header.Set(k, v)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// greedy returns a question with as many ranges as fit into size bytes.
func greedy(t *testing.T, size int) []byte {
	t.Helper()
	q := &Query{Dataset: testDataset, Generation: testGeneration, Chunks: []ChunkQuery{{Digest: digestOf(0)}}}
	q.Chunks[0].Ranges = slices.Repeat([]Range{{Offset: 1, Length: 1}}, (size-fixedBytes-maxHeadBytes-chunkBytes-checksumSize)/rangeBytes)
	text, err := q.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestQuestionsArePaidFor: the memory of a question is reserved before its body is read. A question
// without memory is refused.
func TestQuestionsArePaidFor(t *testing.T) {
	const questions = 12
	wallet := &purse{total: 32 << 20, back: make(chan struct{}, 1)}
	s := newShelf(1, 100)
	cfg := serverOf(s)
	cfg.Reserve = wallet.reserve
	address, text := start(t, cfg), greedy(t, maxQueryBytes)
	var all sync.WaitGroup
	for range questions {
		all.Go(func() {
			if status, said := post(t, address, readPath, "a", text); status != http.StatusServiceUnavailable || !strings.Contains(said, CodeOverloaded) {
				t.Errorf("got %d %s, want %d", status, said, http.StatusServiceUnavailable)
			}
		})
	}
	all.Wait()
	if wallet.now != 0 || wallet.most != 0 || len(s.asked) != 0 {
		t.Errorf("got %d bytes kept, %d at most and %d questions decoded; want none", wallet.now, wallet.most, len(s.asked))
	}
	text = greedy(t, 1<<20)
	status, said := post(t, address, readPath, "a", text)
	<-wallet.back
	if status != http.StatusOK || wallet.most != int64(len(text)*queryTimes) || wallet.now != 0 {
		t.Errorf("got %d %.300q, %d bytes taken and %d kept; want %d, %d and 0", status, said, wallet.most, wallet.now, http.StatusOK, len(text)*queryTimes)
	}
	wallet.total = 0
	q, dst, want := s.question(3, 7)
	if err := asker(t, nil).Read(t.Context(), address, q, dst); err != nil {
		t.Errorf("a small question while no memory is left: %v", err)
	}
	same(t, dst, want)
}
