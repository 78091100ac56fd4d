package ledger_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client/ledger"
)

// forgeries are the changes of a run's ledgers that are not ledgers of a run without faults, with
// the message of Parse or Audit. The run has two attempts, of three ranks and two.
func forgeries() map[string]forgery {
	return map[string]forgery{
		// The text.
		"empty":                     text("", "", func(string) string { return "" }, "the ledgers are empty"),
		"the last line is cut":      text("", "", func(s string) string { return s[:len(s)-7] }, "line 5: the ledger is truncated"),
		"the last line feed is cut": text("", "", func(s string) string { return s[:len(s)-1] }, "line 5: the ledger is truncated"),
		"a line is cut":             text(`"ranks":3,`, "\n", nil, "line 1: not a part of a ledger: unexpected end of JSON input"),
		"an empty line":             text("}\n", "}\n\n", nil, "line 2: not a part of a ledger"),
		"two parts in a line":       text("}\n{", "}{", nil, "line 1: not a part of a ledger"),
		"another version":           text(`"ledger":1`, `"ledger":2`, nil, "version 2 of a ledger, not 1"),
		"an unknown key":            text(`"rank":0`, `"rank":0,"more":1`, nil, "not in the canonical form"),
		"a key twice":               text(`"rank":0`, `"rank":0,"rank":0`, nil, "not in the canonical form"),
		"a space":                   text(`"rank":0`, `"rank": 0`, nil, "not in the canonical form"),
		"keys in another order":     text(`"rank":0,"ranks":3`, `"ranks":3,"rank":0`, nil, "not in the canonical form"),
		"no URL":                    text(`"url":"`+address+`",`, "", nil, "not in the canonical form"),
		"a fraction":                text(`,960]`, `,960.5]`, nil, "line 1: not a part of a ledger: read has a wrong value, a JSON number 960.5"),
		"a negative number":         text(`,960]`, `,-1]`, nil, "not a part of a ledger"),
		"a number over 64 bits":     text(`,960]`, `,18446744073709551616]`, nil, "not a part of a ledger"),
		"two numbers":               text(`,960]`, `]`, nil, "not in the canonical form"),
		"four numbers":              text(`,960]`, `,960,1]`, nil, "not in the canonical form"),
		"no list":                   text(`"previous":[]`, `"previous":null`, nil, "previous and read must be lists"),
		"a short digest":            text(plan, plan[1:], nil, "32 hexadecimal digits"),
		"capital digits":            text(plan, strings.ToUpper(plan), nil, "32 hexadecimal digits"),
		"a letter beyond ASCII":     text("photos", "phötos", nil, "is not that of the URL"),
		"a quotation mark":          text("photos", `pho\"tos`, nil, "is not that of the URL"),
		"an empty omission":         text(`[[0,3,5]]`, `[[0,3,3]]`, nil, "positions [0 3 3] were filtered, failed or replaced, but not read"),
		"an omission not read":      text(`"filtered":[[0,3,5]]`, `"filtered":[[0,959,961]]`, nil, "positions [0 959 961] were filtered, failed or replaced, but not read"),

		// One part, by a forger who corrects the digests of the parts that continue it.
		"a rank beyond":                 part(1, func(p *ledger.Part) { p.Rank = 3 }, "rank 3 of 3"),
		"an attempt after none":         part(0, func(p *ledger.Part) { p.Attempt = 1 }, "attempt 1 continues 0 parts"),
		"positions beyond the epoch":    part(0, func(p *ledger.Part) { p.Read[0][2] = 1001 }, "read [0 0 1001]"),
		"positions before the start":    part(3, func(p *ledger.Part) { p.Read[0][1] = 799 }, "read [0 799 1000]: the part begins at 0:800"),
		"an empty range":                part(4, func(p *ledger.Part) { p.Read[1][2] = 0 }, "read [1 0 0]"),
		"an epoch beyond all":           part(4, func(p *ledger.Part) { p.Read[1][0] = 1<<64 - 1 }, "read [18446744073709551615 0 200]"),
		"another generation":            part(1, func(p *ledger.Part) { p.Generation = plan }, "is not that of the URL"),
		"another generation and URL":    part(1, func(p *ledger.Part) { p.Generation, p.URL = plan, strings.ReplaceAll(p.URL, generation, plan) }, "of rank 1 in attempt 0 differs from that of rank 0"),
		"plans in another order":        part(2, func(p *ledger.Part) { p.Plans = append(p.Plans, p.Plans[0]); p.Plans[0].At[0] = 1 }, "plans must be in the order of their places"),
		"a range within another":        part(2, func(p *ledger.Part) { p.Read = append(p.Read, ledger.Range{0, 3, 5}) }, "doubled in attempt 0 from 0:3 to 0:5 by [2]"),
		"another plan":                  part(2, func(p *ledger.Part) { p.Plans[0].Digest = generation }, "of rank 2 in attempt 0 differs from that of rank 0"),
		"another seed in the URL":       part(4, func(p *ledger.Part) { p.URL += "&seed=1" }, "of rank 1 in attempt 1 differs from that of rank 0"),
		"another start":                 part(4, func(p *ledger.Part) { p.Start[1], p.Read[0][1] = 700, 700 }, "differs from that of rank 0 in generation, plans, URL, ranks, positions or start"),
		"more ranks":                    part(4, func(p *ledger.Part) { p.Ranks = 3 }, "differs from that of rank 0"),
		"longer epochs":                 part(4, func(p *ledger.Part) { p.Positions = 1001 }, "differs from that of rank 0"),
		"another rank":                  part(0, func(p *ledger.Part) { p.Rank = 1 }, "of rank 1 in attempt 0 is not the only one of this rank"),
		"a position less":               part(1, func(p *ledger.Part) { p.Read[0][2] = 799 }, "missing in attempt 0 from 0:799 to 0:800 by [1]"),
		"a position less in the middle": part(2, func(p *ledger.Part) { p.Read = []ledger.Range{{0, 0, 7}, {0, 8, 960}} }, "missing in attempt 0 from 0:7 to 0:8 by [2]"),
		"a position twice":              part(0, func(p *ledger.Part) { p.Read = append(p.Read, ledger.Range{0, 799, 801}) }, "doubled in attempt 0 from 0:799 to 0:800 by [0]"),
		"a range twice":                 part(3, func(p *ledger.Part) { p.Read = append(p.Read, p.Read[1]) }, "doubled in attempt 1 from 1:0 to 1:200 by [0]"),
		"an epoch less":                 part(3, func(p *ledger.Part) { p.Read = p.Read[1:] }, "missing in attempt 1 from 0:800 to 1:0 by [0]"),
		"the end of a rank less":        part(3, func(p *ledger.Part) { p.Read = p.Read[:1] }, "missing in attempt 1 from 1:0 to 1:200 by [0]"),
		"a rank ahead of all":           part(4, func(p *ledger.Part) { p.Read[1][2] = 201 }, "missing in attempt 1 from 1:200 to 1:201 by [0]"),

		// Several parts.
		"a rank less": several(func(r *run) { r.attempts[0] = slices.Delete(r.attempts[0], 1, 2) }, "attempt 0 of 3 ranks lacks 1, from rank 1 on"),
		"a generation changed by a resume": several(func(r *run) {
			for _, p := range r.attempts[1] {
				p.Generation, p.URL = plan, strings.ReplaceAll(p.URL, generation, plan)
			}
		}, "in attempt 1 has another generation or plan than attempt 0"),
		"a start beyond the epoch": several(func(r *run) {
			for _, p := range r.attempts[1] {
				p.Start[1], p.Read, p.Failed, p.Replaced = 1001, p.Read[1:], nil, nil
			}
		}, "the attempt begins at 0:1001, and an epoch has 1000 positions"),
		"a plan changed by a resume": several(func(r *run) {
			r.attempts[1][0].Plans[0].Digest, r.attempts[1][1].Plans[0].Digest = generation, generation
		}, "in attempt 1 has another generation or plan than attempt 0"),
		"a later resume": several(func(r *run) {
			r.attempts[1][0].Start[1], r.attempts[1][1].Start[1] = 970, 970
			r.attempts[1][0].Read[0][1], r.attempts[1][1].Read[0][1] = 970, 970
		}, "missing in attempt 0 from 0:960 to 0:970 by [0 1 2]"),

		// Lines, with digests as they were.
		"a part less in the first attempt": lines(func(l []string) []string { return slices.Delete(l, 1, 2) }, "which is missing or was changed"),
		"a part less in the last attempt":  lines(func(l []string) []string { return l[:4] }, "attempt 1 of 2 ranks lacks 1, from rank 1 on"),
		"the last attempt less a rank 0":   lines(func(l []string) []string { return slices.Delete(l, 3, 4) }, "of rank 0 in attempt 0 is continued by no part"),
		"the first attempt less":           lines(func(l []string) []string { return l[3:] }, "which is missing or was changed"),
		"a part that none continues": lines(func(l []string) []string {
			l[3] = regexp.MustCompile(`,"[0-9a-f]{32}"\]`).ReplaceAllString(l[3], "]")
			return l
		}, "of rank 2 in attempt 0 is continued by no part"),
		"a part twice":    lines(func(l []string) []string { return append(l, l[2]) }, "of rank 2 in attempt 0 is given twice (such parts: 1): give the ledgers of one checkpoint"),
		"all parts twice": lines(func(l []string) []string { return append(l, l...) }, "of rank 0 in attempt 0 is given twice (such parts: 5)"),
		"a part of the first attempt changed": lines(func(l []string) []string {
			l[0] = strings.Replace(l[0], "[0,3,5]", "[0,3,6]", 1)
			return l
		}, "of rank 0 in attempt 1 continues the part"),
		"a part and its earlier form": lines(func(l []string) []string { return append(l, strings.Replace(l[4], "[1,0,200]", "[1,0,100]", 1)) }, "of rank 1 in attempt 1 is not the only one of this rank"),
		"an attempt between is lost": lines(func(l []string) []string {
			l[3], l[4] = strings.Replace(l[3], `"attempt":1`, `"attempt":2`, 1), strings.Replace(l[4], `"attempt":1`, `"attempt":2`, 1)
			return l
		}, "of rank 0 in attempt 2 continues a part of attempt 0"),
	}
}

// forgery changes the ledgers of a run.
type forgery struct {
	change func(*run) string // returns the text
	want   string
}

func text(from, to string, change func(string) string, want string) forgery {
	return forgery{func(r *run) string {
		s := strings.Join(r.lines(), "")
		if change != nil {
			return change(s)
		}
		return strings.Replace(s, from, to, 1)
	}, want}
}

func several(change func(*run), want string) forgery {
	return forgery{func(r *run) string {
		change(r)
		r.chain()
		return strings.Join(r.lines(), "")
	}, want}
}

func part(n int, change func(*ledger.Part), want string) forgery {
	return several(func(r *run) { change(slices.Concat(r.attempts...)[n]) }, want)
}

func lines(change func([]string) []string, want string) forgery {
	return forgery{func(r *run) string { return strings.Join(change(r.lines()), "") }, want}
}

// honest returns the run that the forgeries change.
func honest() *run {
	r := &run{}
	r.attempt(3, 960, 960, 160)
	r.attempts[0][0].Filtered = []ledger.Range{{0, 3, 5}}
	r.attempt(2, 1000, 400, 0)
	r.attempts[1][1].Failed, r.attempts[1][1].Replaced = []ledger.Range{{0, 980, 981}}, []ledger.Range{{1, 0, 2}}
	r.chain()
	return r
}

var update = flag.Bool("update", false, "write testdata/forged.json")

// verdict is the result of an audit of a text, for other implementations.
type verdict struct {
	Text    string       `json:"text"`
	OK      bool         `json:"ok"`
	Head    string       `json:"head,omitempty"` // if ok
	Missing []ledger.Gap `json:"missing,omitempty"`
	Doubled []ledger.Gap `json:"doubled,omitempty"`
}

func judge(text string) (v verdict, said string) {
	v.Text = text
	parts, err := ledger.Parse([]byte(text))
	if err != nil {
		return v, err.Error()
	}
	r := ledger.Audit(parts)
	v.OK, v.Head, v.Missing, v.Doubled = r.OK(), r.Head, r.Missing, r.Doubled
	said = strings.Join(r.Faults, "\n")
	for _, g := range r.Missing {
		said += fmt.Sprintf("\nmissing in attempt %d from %s to %s by %v", g.Attempt, g.From, g.To, g.Ranks)
	}
	for _, g := range r.Doubled {
		said += fmt.Sprintf("\ndoubled in attempt %d from %s to %s by %v", g.Attempt, g.From, g.To, g.Ranks)
	}
	return v, said
}

// TestAudit_FindsForgedLedgers also compares the verdicts with testdata/forged.json, which
// integration/conformance judges by the specification alone.
func TestAudit_FindsForgedLedgers(t *testing.T) {
	all := forgeries()
	good, said := judge(strings.Join(honest().lines(), ""))
	if !good.OK {
		t.Fatalf("the run itself: got %s", said)
	}
	verdicts, texts := map[string]verdict{"honest": good}, map[string]string{good.Text: "honest"}
	for name, f := range all {
		got, said := judge(f.change(honest()))
		if got.OK || !strings.Contains(said, f.want) {
			t.Errorf("%s: got %q, want %q", name, said, f.want)
		}
		if same := texts[got.Text]; same != "" {
			t.Errorf("%s is %s", name, same)
		}
		texts[got.Text], verdicts[name] = name, got
	}
	if len(all) < 40 {
		t.Errorf("got %d forgeries, want 40", len(all))
	}
	const file = "testdata/forged.json"
	if *update {
		out, _ := json.MarshalIndent(verdicts, "", " ")
		if err := os.WriteFile(file, append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]verdict
	if err := json.Unmarshal(stored, &want); err != nil {
		t.Fatal(err)
	}
	for name, v := range verdicts {
		if w := want[name]; fmt.Sprint(w) != fmt.Sprint(v) {
			t.Errorf("%s: got %+v, want %+v; run the test with -update", name, v, w)
		}
	}
	if len(want) != len(verdicts) {
		t.Errorf("got %d verdicts in %s, want %d", len(want), file, len(verdicts))
	}
}
