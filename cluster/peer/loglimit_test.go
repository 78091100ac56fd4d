package peer

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/internal/loglimit"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestStrangersDoNotFillTheLog: repeated wrong requests of one host cause one log line per minute,
// with the number of omitted lines.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := NewServer(ServerConfig{Cluster: "job-a", Log: zerolog.New(&out)})
		faults := s.logLimit.HTTP(s.cfg.Log, "peer connection")
		const mostKinds = 256
		lines := func() (all []string) {
			defer out.Reset()
			return strings.Split(strings.TrimSpace(out.String()), "\n")
		}
		knock := func(i int, host string) {
			r := httptest.NewRequest(http.MethodPost, helloPath, http.NoBody)
			r.RemoteAddr = fmt.Sprintf("%s:%d", host, 1024+i)
			r.Header = http.Header{
				VersionHeader: {"2"}, ClusterHeader: {"job-b"}, MemberHeader: {strings.Repeat("m", 9000)},
			}
			s.ServeHTTP(httptest.NewRecorder(), r)
			faults.Printf("http: TLS handshake error from %s: remote error: tls: bad certificate", r.RemoteAddr)
		}
		for i := range 500 {
			knock(i, "10.0.0.1")
		}
		got := lines()
		if len(got) != 2 || !strings.Contains(got[0], "other_cluster") || !strings.Contains(got[1], "tls: bad certificate") {
			t.Errorf("got %d lines, %.300q, want one of each kind", len(got), got)
		}
		if len(got[0]) > 1500 {
			t.Errorf("got a line of %d bytes", len(got[0]))
		}
		knock(0, "10.0.0.2")
		if got := lines(); len(got) != 2 {
			t.Errorf("another host: got %q, want two lines", got)
		}
		time.Sleep(loglimit.Interval)
		knock(0, "10.0.0.1")
		for _, line := range lines() {
			if !strings.Contains(line, `"left_out":499`) {
				t.Errorf("got %s, want it to say that 499 were left out", line)
			}
		}
		for i := range 5000 {
			knock(i, fmt.Sprintf("10.%d.%d.1", 1+i/250, i%250))
		}
		if got := lines(); len(got) > mostKinds+1 {
			t.Errorf("from everywhere: got %d lines, want at most %d", len(got), mostKinds)
		}
		faults.Print("http: panic serving 10.0.0.1:99: out of order")
		faults.Print("http: panic serving 10.0.0.1:99: out of order")
		if got := lines(); len(got) != 2 {
			t.Errorf("got %q, want both panics", got)
		}
	})
}
