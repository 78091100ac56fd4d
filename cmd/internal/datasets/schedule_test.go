package datasets

import (
	"fmt"
	"strings"
	"testing"
)

const scheduledFile = `mixtures:
  blend:
    mix: photos:3,text:1,scans:0,samples=1000
    schedule:
      20: 1/1/0
      40-100/20: 0/0/2
      200: 1/0/1
`

// TestSchedule_RampIsExact reads a file with a ramp of three steps to another source.
func TestSchedule_RampIsExact(t *testing.T) {
	s, err := Parse("f", []byte(scheduledFile))
	if err != nil || len(s.Mixtures) != 1 {
		t.Fatalf("got %+v, %v", s, err)
	}
	m := s.Mixtures[0]
	want := "[{20 [1 1 0]} {40 [6 6 4]} {60 [4 4 8]} {80 [2 2 12]} {100 [0 0 2]} {200 [1 0 1]}]"
	if got := fmt.Sprint(m.Segments); got != want || m.Samples != 1000 || m.Sources[2].Share != 0 || m.At != "f:2" {
		t.Errorf("got %s of %+v, want %s", got, m, want)
	}
}

// TestSchedule_LongestRamp reads the largest weights and the most steps of a ramp.
func TestSchedule_LongestRamp(t *testing.T) {
	text := "mixtures:\n  m: {mix: 'a:4095,b:1,samples=1000', schedule: {10-264/1: 1/4095}}"
	s, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	g := s.Mixtures[0].Segments
	if len(g) != 255 || fmt.Sprint(g[0], g[127], g[254]) != "{10 [4260376576 17813504]} {137 [2130710528 2147479552]} {264 [1 4095]}" {
		t.Errorf("got %d segments: %v, %v, %v", len(g), g[0], g[127], g[254])
	}
}

func TestSchedule_ReportsFaults(t *testing.T) {
	const mix = "mix: 'a:1,b:1,samples=100'"
	for text, want := range map[string]string{
		"{" + mix + "}":                                    "a schedule that maps positions to weights",
		"{" + mix + ", schedule: {}}":                      "a schedule that maps positions to weights",
		"{" + mix + ", schedule: {x: 1/1}}":                "schedule: x: must be a position, or a ramp",
		"{" + mix + ", schedule: {10: 1}}":                 "schedule: 10: got 1 weights for 2 sources",
		"{" + mix + ", schedule: {10: 1/1/1}}":             "schedule: 10: got 3 weights for 2 sources",
		"{" + mix + ", schedule: {10: 1/-1}}":              "schedule: 10: must be whole numbers",
		"{" + mix + ", schedule: {10: 0/0}}":               "segment 1: has no positive weight",
		"{" + mix + ", schedule: {20: 1/0, 10: 0/1}}":      "segment 2: begins at position 10: must be after 20",
		"{" + mix + ", schedule: {10: 1/0, 10: 0/1}}":      `"10" is given twice`,
		"{" + mix + ", schedule: {10-25/10: 0/1}}":         "must be a position, or a ramp FIRST-LAST/LENGTH of at most 255 whole steps",
		"{" + mix + ", schedule: {25-10/1: 0/1}}":          "must be a position, or a ramp FIRST-LAST/LENGTH of at most 255 whole steps",
		"{" + mix + ", schedule: {10-20: 0/1}}":            "must be a position, or a ramp FIRST-LAST/LENGTH of at most 255 whole steps",
		"{" + mix + ", schedule: {10-266/1: 0/1}}":         "at most 255 whole steps",
		"{" + mix + ", schedule: {10-265/1: 0/1}}":         "schedule of 257 segments: must be at most 256",
		"{" + mix + ", schedule: {10-20/1: 0/16777217}}":   "sum to more than 16777216",
		"{mix: 'a:1,b:1', schedule: {10: 0/1}}":            "must have weights, samples=N",
		"{mix: 'a:1,b:2,per-batch', schedule: {10: 0/1}}":  "must have weights, samples=N",
		"{mix: 'a:-1,b:1,samples=9', schedule: {10: 0/1}}": "a:-1: must be SOURCE:SHARE, with a whole number from 0",
		"{" + mix + ", plan: {10: 0/1}}":                   `unknown key "plan": must be mix or schedule`,
		"{schedule: {10: 0/1}}":                            "must be SOURCE:SHARE",
		"'a:0,b:1'":                                        "a:0: must be SOURCE:SHARE, with a whole number from 1",
	} {
		if _, err := Parse("f", []byte("mixtures:\n  m: "+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
