//go:build !race

package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/words"
)

func TestAdviceAnswersTheQuestions(t *testing.T) {
	d := uniform(t, 256*16, 16, 16384)
	var results []Result
	for _, gateways := range []int{1, 2} {
		for _, disk := range []int64{0, d.Bytes()} {
			for _, name := range policy.Names() {
				for _, cache := range []float64{.05, .3, .6, 1.6} {
					s := plain(d, cache)
					s.Order.Window, s.Epochs, s.BatchSize = 16, 2, 64
					s.Alone = true
					s.Gateways, s.DiskSize, s.DiskRate, s.Policy = gateways, disk, 1e9, name
					results = append(results, predict(t, d, s))
				}
			}
		}
	}
	text := strings.Join(Advice(d, results), "\n")
	for _, want := range []string{"the job is the bottleneck", "Cache: ", "Policy: ", "A disk cache of 64MiB", "Gateways: 2 instead of 1", "Warning: a cache of 3355443B is smaller than the order requires"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
	one := Advice(d, results[1:2])
	if got := strings.Join(one, "\n"); !strings.Contains(got, "the store is the bottleneck") || strings.Contains(got, "Policy") {
		t.Errorf("one setting: got\n%s\nwant its limit and no comparison", got)
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	d := uniform(t, 1000, 10, 4096)
	good := plain(d, 2)
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Setting){
		"rate":                            func(s *Setting) { s.Rate = 0 },
		"ranks":                           func(s *Setting) { s.Ranks = 0 },
		"some ranks would get no samples": func(s *Setting) { s.BatchSize = 1 },
		"gateways":                        func(s *Setting) { s.Gateways = 3 },
		"skew":                            func(s *Setting) { s.Skew = .5 },
		"at least 1 MiB":                  func(s *Setting) { s.CacheSize = 1000 },
		"a disk cache of 0":               func(s *Setting) { s.DiskSize = 1 << 30 },
		"epochs":                          func(s *Setting) { s.Epochs = 0 },
		"ahead":                           func(s *Setting) { s.ReadAhead = 65 },
	} {
		s := good
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := Run(t.Context(), d, s); err == nil {
			t.Errorf("%s: got a result, want the error", want)
		}
	}
	for _, c := range []struct{ samples, per, size uint64 }{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1 << 62, 1, 1 << 20}, {1 << 40, 1, 1}, {10, 1 << 20, 1 << 20}} {
		if _, err := Uniform(c.samples, c.per, int64(c.size)); err == nil {
			t.Errorf("%+v: got data, want an error", c)
		}
	}
}

func TestWordsForFigures(t *testing.T) {
	for got, want := range map[string]string{
		Bytes(999): "999 B", Bytes(1_234_567): "1.23 MB", Bytes(999_999_999): "1 GB", words.Size(3 << 30): "3GiB", words.Size(200e9): "200GB", words.Size(1024e3): "1000KiB", words.Size(1025): "1025B", words.Size(0): "0B",
		Span(1234567 * time.Nanosecond): "1.23ms", Span(90 * time.Minute): "1h30m", Span(15*time.Hour + 16*time.Minute + 40*time.Second): "15h17m", Span(83*time.Second + 456*time.Millisecond): "1m23s", Span(0): "0s",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
