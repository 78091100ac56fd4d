package lab

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"
	"time"
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
		Pass: []Mark{{Name: "fast", Want: "at least 2 x"}, {Name: "once", Want: "each sample once"}}, Run: run,
	}
}

func TestAMarkThatIsNotJudgedIsAnError(t *testing.T) {
	_, err := Run(t.Context(), example(func(_ context.Context, r *Report) error {
		r.Judge("fast", true, "3 x", "")
		return nil
	}), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "once") {
		t.Errorf("got %v, want an error that names the mark", err)
	}
}

func TestPageSaysWhatDoesNotHoldAndWhy(t *testing.T) {
	r, err := Run(t.Context(), example(func(_ context.Context, r *Report) error {
		r.Table("Speeds.", "arm", "x").Row("a", 1.5)
		r.Add(&Figure{Name: "speed", Title: "Speed"})
		r.Judge("fast", false, "1.5 x", "the machine was busy")
		r.Judge("once", true, "64 samples", "never shown")
		return nil
	}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	page := Page{Machine: "m", Commit: "c", Plots: "pictures", Reports: []*Report{r}}
	got := page.Markdown()
	for _, want := range []string{
		"| [example](#example) | at least 2 x | 1.5 x | **no** |", "| [example](#example) | each sample once | 64 samples | yes |",
		"*at least 2 x* does not hold here: the machine was busy", "| a | 1.5 |", "![Speed](pictures/example-speed.svg)", "**Claim.** It works.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "never shown") {
		t.Error("the page gives a reason for a mark that holds")
	}
}

// named is a report of an experiment of this name that found something.
func named(t *testing.T, name, found string) *Report {
	t.Helper()
	e := example(func(_ context.Context, r *Report) error {
		r.Judge("fast", true, found, "")
		r.Judge("once", true, found, "")
		return nil
	})
	e.Name = name
	r, err := Run(t.Context(), e, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSomeSectionsOfAPageAreRenewed(t *testing.T) {
	order := []string{"a", "b", "c"}
	was := Page{Machine: "m", Commit: "old", Reports: []*Report{named(t, "a", "one"), named(t, "c", "three")}}
	now := Page{Commit: "new", Date: time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC), Reports: []*Report{named(t, "b", "two"), named(t, "c", "four")}}
	got, err := now.Renew(was.Markdown(), order)
	if err != nil {
		t.Fatal(err)
	}
	all := Page{Machine: "m", Commit: "old", Reports: []*Report{was.Reports[0], now.Reports[0], now.Reports[1]}}
	plain := strings.ReplaceAll(got, "Run by itself on 2026-02-03, at commit new.\n", "")
	if want := all.Markdown(); plain != want || len(got) != len(plain)+2*len("Run by itself on 2026-02-03, at commit new.\n") {
		t.Errorf("got\n%s\nwant, but for two lines,\n%s", got, want)
	}
	if again, err := now.Renew(got, order); err != nil || again != got {
		t.Errorf("renewed twice: got %v and\n%s\nwant the same", err, again)
	}
	for text, order := range map[string][]string{"no page": order, was.Markdown(): {"a", "b"}} {
		if _, err := now.Renew(text, order); err == nil {
			t.Errorf("%.20q: got no error", text)
		}
	}
}
