package address

import (
	"fmt"
	"strings"
	"testing"
)

func TestSubsetHasOneForm(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	var runs []string // between five hundred samples that are left out
	for i := range 500 {
		runs = append(runs, fmt.Sprintf("%d-%d", 1000000+20*i, 1000018+20*i))
	}
	many := strings.Join(runs, ",")
	for text, want := range map[string]string{
		"train":                           "train",
		digest + ":train":                 digest + ":train",
		"train=90,val=10:train":           "train=9,val=1:train",
		"val=2,train=4:val:seven":         "val=1,train=2:val:seven",
		"samples:0-999":                   "samples:0-999",
		"samples:5":                       "samples:5",
		"samples:5-5,6,8-9,10-12":         "samples:5-6,8-12",
		"train~samples:0-9":               "train~samples:0-9",
		"a=1:a~b=1,c=1:c:2":               "a=1:a~b=1,c=1:c:2",
		digest + ":train~samples:3,9-10":  digest + ":train~samples:3,9-10",
		"a=4294967295:a":                  "a=1:a",
		"samples:0-4611686018427387904":   "samples:0-4611686018427387904",
		"samples:1~samples:0~samples:0":   "samples:1~samples:0~samples:0",
		"a=2147483647,b=2147483648:b:s-1": "a=2147483647,b=2147483648:b:s-1",
		"samples:" + many:                 "samples:" + many,
	} {
		s, reason := ParseSubset(text)
		if got := s.String(); reason != "" || got != want {
			t.Errorf("%s: got %s %s, want %s", text, got, reason, want)
		}
		if again, reason := ParseSubset(want); reason != "" || again.String() != want {
			t.Errorf("%s: read again it is %s %s", want, again, reason)
		}
	}
}

func TestSubsetRefuses(t *testing.T) {
	for _, text := range []string{
		"", "~", "train~", "~train", "train~val", "a/b", "x:train", strings.Repeat("ab", 32), "samples:", "samples:-1", "samples:1-", "samples:9-3",
		"samples:3,3", "samples:4,3", "samples:03", "samples:1,,2", "samples:+1", "samples:9223372036854775808", "a=1", "a=1:", "a=1:b", "a=0:a", "a=-1:a",
		"a=1,a=2:a", "a=01:a", "a=.9,b=.1:a", "a=4294967295,b=1:a", "a=1:a:b:c", "a=1:a:", "a=1:a: b", "-a=1:-a", "a=1,:a", "=1:", "a=1;b=1:a",
		"a=1,b=1:a~c=1,d=1:c", "samples:0~samples:0~samples:0~samples:0~samples:0", "a=1:" + strings.Repeat("a", 300),
		"samples:0" + strings.Repeat(",1000000000000", 700), strings.Repeat("ab", 32) + ":train~x", "a=1:a\n", "samples:1 ",
	} {
		if s, reason := ParseSubset(text); reason == "" {
			t.Errorf("%q: taken as %s", text, s)
		}
	}
}

func TestQuarantineRefuses(t *testing.T) {
	for _, text := range []string{
		"", "x", "7", "samples:", "samples:0-65536", "samples:3-1", "samples:" + strings.Repeat("1", 20), "samples:1~samples:2",
		"samples:0" + strings.Repeat(",1000000000000", 700),
	} {
		if bad, reason := ParseQuarantine(text); reason == "" {
			t.Errorf("%.40q: taken as %s", text, bad)
		}
	}
	if bad, reason := ParseQuarantine("samples:1,2,3,7-8"); reason != "" || WriteQuarantine(bad) != "samples:1-3,7-8" || bad.Count() != 5 {
		t.Errorf("got %s %s", WriteQuarantine(bad), reason)
	}
}

// FuzzSubset holds every text that is taken to one form, which is read back as it is.
func FuzzSubset(f *testing.F) {
	for _, s := range []string{"train", "a=2,b=4:a:s~samples:1-2,3", "samples:0-0,1", "a=1:a~b=1:b:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, reason := ParseSubset(text)
		if reason != "" {
			return
		}
		again, reason := ParseSubset(s.String())
		if reason != "" || again.String() != s.String() || len(s.String()) > len(text) {
			t.Fatalf("%q is %q, which is %q %s", text, s, again, reason)
		}
		for _, r := range s.String() {
			if r <= ' ' || r > '~' || strings.ContainsRune(`&#?/%+"<>\`, r) {
				t.Fatalf("%q holds %q, which a URL escapes", s, r)
			}
		}
	})
}
