package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// toyResults holds the expected results of all mutants of testdata/toy.
var toyResults = map[string]string{
	"Killed, boundary <=: a < b":                                           killed,
	"Killed, negation: a < b":                                              killed,
	"Lived, boundary >=: a > 0":                                            lived,
	"Lived, negation: a > 0":                                               killed,
	"Uncovered, negative: -a":                                              uncovered,
	"Hangs, negation: i != n":                                              killed,
	"Hangs, increment --: i++":                                             "timeout",
	"Hangs, arithmetic /: i * 2":                                           killed,
	"Grows, boundary <=: len(all) < n":                                     killed,
	"Grows, negation: len(all) < n":                                        killed,
	"Grows, arithmetic +: len(all)-1":                                      killed,
	"Grows, increment ++: n--":                                             "fatal error: out of memory",
	"Equivalent, boundary >=: a > b":                                       lived,
	"Equivalent, negation: a > b":                                          killed,
	`ShortCircuit, increment --: named["calls"]++`:                         killed,
	"ShortCircuit, logical &&: b != 0 && a%b == 0 || // a multiple a == 1": killed,
	"ShortCircuit, logical ||: b != 0 && a%b == 0":                         killed,
	"ShortCircuit, negation: b != 0":                                       killed,
	"ShortCircuit, negation: a%b == 0":                                     killed,
	"ShortCircuit, arithmetic *: a%b":                                      killed,
	"ShortCircuit, negation: a == 1":                                       killed,
	"Toy.Take, drop: defer t.lock.Unlock()":                                killed,
	"Toy.Take, increment --: t.places++":                                   killed,
	"Toy.Take, drop: t.release()":                                          killed,
	"Toy.release, increment ++: t.places--":                                killed,
	"Toy.Finish, drop: _ = t.close()":                                      lived,
	"Shift, logical ||: n < 1<<s && n != 0 && constant":                    killed,
	"Shift, logical ||: n < 1<<s && n != 0":                                killed,
	"Shift, negation: n < 1<<s":                                            killed,
	"Shift, negation: n != 0":                                              killed,
}

var slowToys = map[string]string{"TestSlow": "stands for a slow test"}

func buildToy(t *testing.T) (*binary, []test) {
	t.Helper()
	s, err := load("..", "./mutation/testdata/toy")
	if err != nil {
		t.Fatal(err)
	}
	b, err := build("..", t.TempDir(), s)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := b.tests(slowToys, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return b, tests
}

func TestJudge_FindsKnownResults(t *testing.T) {
	b, tests := buildToy(t)
	got := map[string]string{}
	for _, m := range b.mutants {
		v := b.judge(m, tests)
		name := strings.TrimPrefix(m.name, "toy.go ")
		got[name] = v.Result
		if want := toyResults[name]; want == v.By {
			got[name] = v.By
		}
		t.Logf("%s: %s by %q", name, v.Result, v.By)
	}
	for name, want := range toyResults {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	for name := range got {
		if toyResults[name] == "" {
			t.Errorf("%s: got a mutant that is not expected", name)
		}
	}
}

// TestJudge_RepeatsTimeouts passes a negative duration, so that the first run has no time.
func TestJudge_RepeatsTimeouts(t *testing.T) {
	b, _ := buildToy(t)
	for _, m := range b.mutants {
		name := strings.TrimPrefix(m.name, "toy.go ")
		want, known := map[string]verdict{
			"Lived, boundary >=: a > 0":  {Result: lived},
			"Lived, negation: a > 0":     {killed, "TestLived"},
			"Hangs, increment --: i++":   {killed, timeout},
			"Hangs, arithmetic /: i * 2": {killed, "TestHangs"},
		}[name]
		if !known {
			continue
		}
		reach := []string{m.name}
		if got := b.judge(m, []test{{"TestLived", 0.1, reach}, {"TestHangs", -1, reach}}); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestTests_RecordWhatTheyReach(t *testing.T) {
	_, tests := buildToy(t)
	for _, test := range tests {
		for _, name := range test.Reaches {
			fn, _, _ := strings.Cut(strings.TrimPrefix(name, "toy.go "), ",")
			fn = fn[strings.LastIndex(fn, ".")+1:]
			if fn != "release" && "Test"+fn != test.Name {
				t.Errorf("%s: got the mutant %s, which it does not reach", test.Name, name)
			}
		}
	}
	if len(tests) != 9 {
		t.Errorf("got %d tests, want 9: all but the slow one", len(tests))
	}
}

func TestMeasure_ResumesUntilSourcesChange(t *testing.T) {
	root := t.TempDir()
	toy := target{path: "toy", slow: slowToys}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "toy", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verdicts := func() int {
		t.Helper()
		r, err := resume(root, toy)
		if err != nil {
			t.Fatal(err)
		}
		return len(r.Verdicts)
	}
	if err := os.MkdirAll(filepath.Join(root, "toy", "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("a.go", "package toy")
	r, err := resume(root, toy)
	if err != nil {
		t.Fatal(err)
	}
	r.Verdicts["a"] = verdict{Result: killed}
	if err := r.save(true); err != nil {
		t.Fatal(err)
	}
	write("inner/b.go", "package inner")
	write("left.weights", "by a mutant")
	if got := verdicts(); got != 1 {
		t.Errorf("resumed: got %d results, want 1", got)
	}
	write("a_test.go", "package toy")
	if got := verdicts(); got != 0 {
		t.Errorf("after another test: got %d results, want none", got)
	}
}

func TestScore_CountsReasons(t *testing.T) {
	all := []mutant{{name: "a", op: "negation"}, {name: "b", op: "boundary"}, {name: "c", op: "boundary"}, {name: "d", op: dropped},
		{name: "e", op: dropped}, {name: "not judged", op: dropped}}
	verdicts := map[string]verdict{"a": {Result: killed}, "b": {Result: lived}, "c": {Result: lived}, "d": {Result: uncovered}, "e": {Result: killed}}
	committed := &score{Survivors: []survivor{{"b", "equivalent: both are 0"}, {"a", "lives: it did"}}}
	s := count("toy", "abc", all, verdicts, committed)
	if want := (counts{Killed: 1, Lived: 1, Equivalent: 1}); s.Operators != want {
		t.Errorf("operators: got %v, want %v", s.Operators, want)
	}
	if want := (counts{Killed: 1, Uncovered: 1}); s.Drops != want {
		t.Errorf("dropped statements: got %v, want %v", s.Drops, want)
	}
	want := []survivor{{"b", "equivalent: both are 0"}, {"c", notExamined}, {"d", notReached}}
	if !slices.Equal(s.Survivors, want) {
		t.Errorf("survivors: got %v, want %v", s.Survivors, want)
	}
	if got := s.Operators.percent(); got != 50 {
		t.Errorf("got %v %%, want 50: the equivalent one is left out", got)
	}
}

func TestChangedLines_OfOnePackage(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		if _, err := output(root, append([]string{"git", "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("p/a.go", "1\n2\n3\n4\n5\n")
	write("p/inner/a.go", "1\n2\n")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "a")
	write("p/a.go", "1\ntwo\n3\n5\n6\n7\n")
	write("p/inner/a.go", "one\n2\n")
	changed, err := changedLines(root, "HEAD", "p")
	if err != nil {
		t.Fatal(err)
	}
	for line := range 8 {
		if got, want := changed["a.go"][line], line == 2 || line == 5 || line == 6; got != want {
			t.Errorf("line %d: got %v, want %v", line, got, want)
		}
	}
	if _, err := changedLines(root, "nowhere", "p"); err == nil {
		t.Error("a commit that is not there: got no error")
	}
}

// TestPage_SaysWhatScoresSay also checks the committed scores.
func TestPage_SaysWhatScoresSay(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := page(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", "dev", "mutation.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/dev/mutation.md differs from the scores: write it by make mutation FLAGS=-page")
	}
	for _, path := range scored() {
		s, err := readScore(root, path)
		if err != nil {
			t.Fatal(err)
		}
		all := s.Operators.judged() + s.Drops.judged() + s.Operators.Equivalent + s.Drops.Equivalent
		if n := s.Operators.Equivalent + s.Drops.Equivalent; n*10 > all {
			t.Errorf("%s: %d of %d mutants are called equivalent, want at most 10 %%", path, n, all)
		}
		if n := s.Operators.Killed + s.Drops.Killed + len(s.Survivors); n != all {
			t.Errorf("%s: the counts say %d mutants, killed and listed are %d", path, all, n)
		}
		for _, v := range s.Survivors {
			if !strings.HasPrefix(v.Reason, equivalent) && !strings.HasPrefix(v.Reason, lives) {
				t.Errorf("%s: %s: got no reason: %q", path, v.Mutant, v.Reason)
			}
		}
	}
}
