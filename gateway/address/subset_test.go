package address

import (
	"fmt"
	"strings"
	"testing"
)

func TestSubsetHasOneForm(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	var runs []string // ranges between five hundred omitted samples
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
		"samples:0-9~a=2,b=2:a":           "samples:0-9~a=1,b=1:a",
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
	digest := strings.Repeat("ab", 32)
	var parts []string
	for i := range 65 {
		parts = append(parts, fmt.Sprintf("p%d=1", i))
	}
	for _, c := range []struct{ text, want string }{
		{"", "a name must have at most 64 letters, digits, dots, dashes and underscores"},
		{"~", "a name must have at most 64 letters, digits, dots, dashes and underscores"},
		{"train~", "must be a split and a part of it, such as train=9,val=1:train, or samples:0-999"},
		{"~train", "a name must have at most 64 letters, digits, dots, dashes and underscores"},
		{"train~val", "must be a split and a part of it, such as train=9,val=1:train, or samples:0-999"},
		{"a/b", "a name must have at most 64 letters, digits, dots, dashes and underscores"},
		{"x:train", "must be a name, or 64 hexadecimal digits in lower case, a colon and a name, or a split such as train=9,val=1:train, or samples:0-999"},
		{digest, "a digest requires a colon and a name after it"},
		{digest + ":", "a name must have at most 64 letters, digits, dots, dashes and underscores"},
		{"samples:", "a number of a sample empty"},
		{"samples:-1", "a number of a sample empty"},
		{"samples:1-", "a number of a sample empty"},
		{"samples:9-3", "numbers of samples must ascend, each once, below 2^62"},
		{"samples:3,3", "numbers of samples must ascend, each once, below 2^62"},
		{"samples:4,3", "numbers of samples must ascend, each once, below 2^62"},
		{"samples:03", "a number of a sample must not have leading zeros"},
		{"samples:1,,2", "a number of a sample empty"},
		{"samples:+1", "a number of a sample must be an unsigned decimal number, with digits only"},
		{"samples:4611686018427387905", "numbers of samples must ascend, each once, below 2^62"},
		{"samples:18446744073709551616", "a number of a sample must be below 2^64"},
		{"a=1", "must be a split and a part of it, such as train=9,val=1:train, or samples:0-999"},
		{"a=1:", "the split has no part "},
		{"a=1:b", "the split has no part b"},
		{"a=0:a", "the size of a part must be a whole number from 1 to 4294967295"},
		{"a=-1:a", "the size of a part must be a whole number from 1 to 4294967295"},
		{"a=1,a=2:a", "part a is given twice"},
		{"a=01:a", "the size of a part must be a whole number from 1 to 4294967295"},
		{"a=.9,b=.1:a", "the size of a part must be a whole number from 1 to 4294967295"},
		{"a=4294967295,b=1:a", "the sum of the sizes of the parts must be below 2^32"},
		{"a=4294967296:a", "the size of a part must be a whole number from 1 to 4294967295"},
		{"a=1:a:b:c", "must be a split and a part of it, such as train=9,val=1:train, or samples:0-999"},
		{"a=1:a:", "a salt must have at most 64 letters, digits, dots, dashes and underscores"},
		{"a=1:a: b", "a salt must have at most 64 letters, digits, dots, dashes and underscores"},
		{"-a=1:-a", "the name of a part must have at most 64 letters, digits, dots, dashes and underscores"},
		{"a=1,:a", "the size of a part must be a whole number from 1 to 4294967295"},
		{"=1:", "the name of a part must have at most 64 letters, digits, dots, dashes and underscores"},
		{"a=1;b=1:a", "the size of a part must be a whole number from 1 to 4294967295"},
		{"a=1,b=1:a~c=1,d=1:c", "a split of a split requires a different salt after its name: with the same hash the parts would not be independent"},
		{"a=1:a:s~c=1:c:s", "a split of a split requires a different salt after its name: with the same hash the parts would not be independent"},
		{"samples:0~samples:0~samples:0~samples:0~samples:0", "has more than 4 steps"},
		{"a=1:" + strings.Repeat("a", 300), "the split has no part aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
		{strings.Repeat("a", 65), "a name must have at most 64 letters, digits, dots, dashes and underscores"},
		{strings.Repeat("a", 65) + "=1:a", "the name of a part must have at most 64 letters, digits, dots, dashes and underscores"},
		{"a=1:a:" + strings.Repeat("a", 65), "a salt must have at most 64 letters, digits, dots, dashes and underscores"},
		{strings.Join(parts, ",") + ":p1", "a split has at most 64 parts"},
		{"samples:0" + strings.Repeat(",1000000000000", 700), "is longer than 8192 bytes: store it by POST /v1/datasets/{dataset}/subsets, and use its digest"},
		{digest + ":train~x", "must be a split and a part of it, such as train=9,val=1:train, or samples:0-999"},
		{"a=1:a\n", "the split has no part a?"},
		{"samples:1 ", "a number of a sample must be an unsigned decimal number, with digits only"},
	} {
		if _, reason := ParseSubset(c.text); reason != c.want {
			t.Errorf("%.99s: got %q, want %q", c.text, reason, c.want)
		}
	}
	for _, text := range []string{strings.Join(parts[:64], ",") + ":p1", strings.Repeat("z", 64), "samples:" + strings.Repeat("1", 8), "a=1:a~b=1:b:s~samples:0~samples:0"} {
		if _, reason := ParseSubset(text); reason != "" {
			t.Errorf("%.40s: refused: it %s", text, reason)
		}
	}
}

func TestQuarantineRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "must be 64 hexadecimal digits in lower case, or samples: and the numbers of samples, such as samples:7,300-309"},
		{"x", "must be 64 hexadecimal digits in lower case, or samples: and the numbers of samples, such as samples:7,300-309"},
		{"7", "must be 64 hexadecimal digits in lower case, or samples: and the numbers of samples, such as samples:7,300-309"},
		{"samples:", "a number of a sample empty"},
		{"samples:0-65536", "has more than 65536 samples"},
		{"samples:3-1", "numbers of samples must ascend, each once, below 2^62"},
		{"samples:" + strings.Repeat("1", 20), "numbers of samples must ascend, each once, below 2^62"},
		{"samples:1~samples:2", "a number of a sample must be an unsigned decimal number, with digits only"},
		{"samples:0" + strings.Repeat(",1000000000000", 700), "is longer than 8192 bytes: store the list with millrace quarantine, and use its digest"},
	} {
		if _, reason := ParseQuarantine(c.text); reason != c.want {
			t.Errorf("%.99s: got %q, want %q", c.text, reason, c.want)
		}
	}
	if bad, reason := ParseQuarantine("samples:1,2,3,7-8"); reason != "" || WriteQuarantine(bad) != "samples:1-3,7-8" || bad.Count() != 5 {
		t.Errorf("got %s %s", WriteQuarantine(bad), reason)
	}
	if bad, reason := ParseQuarantine("samples:0-65535"); reason != "" || bad.Count() != 1<<16 {
		t.Errorf("as many as a list may have: got %s %s", WriteQuarantine(bad), reason)
	}
}

// FuzzSubset checks that every accepted text has one canonical form, which parses to itself.
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
