package lab

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/provenance"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		in   any
		want string
	}{
		{.00537, "0.0054"},
		{.35, "0.35"},
		{4.5678, "4.57"},
		{61452.4, "61452"},
		{0.0, "0"},
		{math.NaN(), "-"},
		{94375159 * time.Nanosecond, "94.4ms"},
		{"slot", "slot"},
		{7, "7"},
	} {
		if got := Text(c.in); got != c.want {
			t.Errorf("%v: got %q, want %q", c.in, got, c.want)
		}
	}
}

func example(run func(context.Context, *Report) error) Experiment {
	return Experiment{
		Name: "example", Title: "An idea", Claim: "It works.", Setting: []string{"a store"}, Arms: []Arm{{"a", "one"}, {"b", "other"}},
		Pass: []Mark{{Name: "fast", Want: "at least 2 x", Fails: "wait"}, {Name: "once", Want: "each sample once"}}, Run: run,
	}
}

func TestAMarkThatIsNotJudgedIsAnError(t *testing.T) {
	_, err := Run(t.Context(), example(func(_ context.Context, r *Report) error {
		r.Judge("fast", true, "3 x")
		return nil
	}), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "once") {
		t.Errorf("got %v, want an error that names the mark", err)
	}
}

func TestPage_ListsWhatDoesNotHold(t *testing.T) {
	r, err := Run(t.Context(), example(func(_ context.Context, r *Report) error {
		r.Table("Speeds.", "arm", "x").Row("a", 1.5)
		r.Figure(&Figure{Name: "speed", Title: "Speed"})
		r.Judge("fast", false, "1.5 x")
		r.Judge("once", true, "64 samples")
		return nil
	}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r.Measured.Commit = "abc"
	page := Page{Root: t.TempDir(), Plots: "pictures", Reports: []*Report{r}, Changes: r.experiment.Changes(), Older: map[string]bool{"example": true}}
	got := page.Markdown()
	for _, want := range []string{
		"| [example](#example) | at least 2 x | 1.5 x | **no** | **no** |", "| [example](#example) | each sample once | 64 samples | yes | **no** |",
		"*at least 2 x* does not hold: Not investigated.", "| a | 1.5 |", "![Speed](pictures/example-speed.svg)", "**Claim.** It works.",
		"| example | at least 2 x | wait |", "| example | **no** | abc |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if page.Older["example"] = false; !strings.Contains(page.Markdown(), "| 1.5 x | **no** | yes |") {
		t.Error("current figures are shown as older")
	}
	r.Verdicts[0].Note = &provenance.Note{Commit: "abc", Profile: ".", Text: "A lock."}
	if !strings.Contains(page.Markdown(), "does not hold: A lock.") {
		t.Error("the page lacks the note with a profile of the run")
	}
}

func TestReport_IsJudgedByTheMarksOfItsExperiment(t *testing.T) {
	e := example(func(_ context.Context, r *Report) error {
		r.Judge("fast", true, "3 x")
		r.Judge("once", true, "64 samples")
		return nil
	})
	r, err := Run(t.Context(), e, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Judged(e) {
		t.Error("got other marks, want those of the experiment")
	}
	if e.Pass[0].Want = "at least 3 x"; r.Judged(e) {
		t.Error("a mark has moved: got the same marks")
	}
}
