package cli

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/words"
)

func TestDuration_AcceptsDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10s": 10 * time.Second, "1m30s": 90 * time.Second, "14d": 14 * day, "0d": 0, "1d12h": 36 * time.Hour, "0s": 0, "65535d": 65535 * day,
	} {
		got, err := parseDuration(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
		if again, err := parseDuration(words.Duration(got)); err != nil || again != want {
			t.Errorf("%s: is written as %s, which is %v, %v", text, words.Duration(got), again, err)
		}
	}
	for _, text := range []string{"", "d", "14", "-1d", "1d-2h", "1.5d", "1dd", "65536d", "65535d2000000h", "-10s"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
	for d, want := range map[time.Duration]string{day: "24h", 2 * day: "2d", 36 * time.Hour: "36h", 14 * day: "14d", 90 * time.Second: "1m30s", 0: "0s"} {
		if got := words.Duration(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
