package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
)

// warmable serves a fake gateway that only has /v1/warm. answer returns the response for a start
// position.
func warmable(t *testing.T, answer func(from string) string) (url string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/datasets", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"datasets":[{"name":"files"}]}`)
	})
	mux.HandleFunc("GET /v1/datasets/files", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"bytes":1000}`) })
	mux.HandleFunc("POST /v1/datasets/files/warm", func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.RawQuery)
		fmt.Fprint(w, answer(r.URL.Query().Get("from")))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestWarm_ContinuesUntilComplete(t *testing.T) {
	url, asked := warmable(t, func(from string) string {
		next := map[string]int{"0": 40, "40": 90, "90": 100}[from]
		return fmt.Sprintf(`{"next":%d,"samples":100,"chunks":3,"bytes":300,"full":false,"done":%v}`, next, next == 100)
	})
	var got warmReport
	if err := json.Unmarshal([]byte(ok(t, "warm", url, "--epoch", "3", "--seed", "5", "--shuffle", "full", "--json").stdout), &got); err != nil {
		t.Fatal(err)
	}
	got.Seconds = 0
	if want := (warmReport{WarmProgress: client.WarmProgress{Dataset: "files", Epoch: 3, Next: 100, Samples: 100, Chunks: 9, Bytes: 900, Done: true}}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want := "epoch=3&from=0&seed=5&shuffle=full epoch=3&from=40&seed=5&shuffle=full epoch=3&from=90&seed=5&shuffle=full"
	if got := strings.Join(*asked, " "); got != want {
		t.Errorf("got requests %s, want %s", got, want)
	}
}

func TestWarm_EndsIfNoTierHasRoom(t *testing.T) {
	url, asked := warmable(t, func(from string) string {
		return fmt.Sprintf(`{"next":40,"samples":100,"chunks":3,"bytes":300,"full":%v,"done":false}`, from == "40")
	})
	out := ok(t, "warm", url).stdout
	if want := "loaded up to sample 40 of 100: the caches are full"; !strings.Contains(out, want) || len(*asked) != 2 {
		t.Errorf("got %q after %d requests, want %q after 2", out, len(*asked), want)
	}
}

func TestWarm_RejectsBackwardProgress(t *testing.T) {
	url, _ := warmable(t, func(from string) string {
		return fmt.Sprintf(`{"next":%d,"samples":100,"chunks":3,"bytes":300,"full":false,"done":false}`, 40-len(from))
	})
	if o := millrace(t, nil, "warm", url); o.code != exitFailure || !strings.Contains(o.stderr, "next is 38 of 100") {
		t.Errorf("got exit code %d and %q, want 1 and where it went", o.code, o.stderr)
	}
}

func TestWarm_RealGateway(t *testing.T) {
	url := gatewayFor(t, shards(t))
	for range 2 { // a second run has nothing to load
		if out := ok(t, "warm", url, "--epoch", "1").stdout; !strings.Contains(out, "all 50 samples are in the caches") {
			t.Errorf("got %q, want all of the epoch to be warm", out)
		}
	}
	for args, want := range map[string]int{"--dataset nope": exitNotFound, "--generation abc": exitUsage, "--rank 1": exitUsage} {
		if o := millrace(t, nil, append([]string{"warm", url}, strings.Fields(args)...)...); o.code != want {
			t.Errorf("%s: got exit code %d, want %d\n%s", args, o.code, want, o.stderr)
		}
	}
}
