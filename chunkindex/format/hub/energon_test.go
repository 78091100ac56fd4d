package hub_test

import (
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/hub"
)

func TestReadEnergon(t *testing.T) {
	keys := strings.Fields("a/0.tar a/1.tar a/2.tar a/3.tar a/4.tar s/010.tar s/07.tar s/08.tar s/09.tar s/10.tar s/8.tar shard_0.tar shard_1.tar shard_2.tar x/s/08.tar x1a.tar x1b.tar x2a.tar x2b.tar x2c.tar")
	for name, c := range map[string]struct{ text, want string }{
		"as energon prepare writes it": {"exclude: []\nsplit_parts:\n  test: []\n  train:\n  - shard_0.tar\n  - shard_1.tar\n  val:\n  - shard_2.tar\n", "test: train: shard_0.tar shard_1.tar val: shard_2.tar"},
		"JSON":                         {`{"split_parts": {"train": ["a/0.tar"]}, "exclude": []}`, "train: a/0.tar"},
		"braces":                       {"split_parts:\n  train: ['s/{08..10}.tar', 'x{1..2}{a,b}.tar']\n", "train: s/08.tar s/09.tar s/10.tar x1a.tar x1b.tar x2a.tar x2b.tar"},
		"padding":                      {"split_parts: {train: ['s/{8..010}.tar']}", "train: s/010.tar"},
		"shards that are excluded":     {"exclude: ['a/{1..2}.tar']\nsplit_parts:\n  train: ['a/{1..3}.tar']\n", "train: a/3.tar excluded: a/1.tar a/2.tar"},
		"nothing":                      {"", ""},

		"a sample that is excluded": {"exclude: [a.tar/17]\nsplit_parts: {train: [a.tar]}", `! an entry excludes "a.tar/17", which is not a shard: to exclude samples, use millrace quarantine`},
		"other braces":              {"split_parts: {train: ['{a..c}.tar']}", `! braces in "{a..c}.tar"`},
		"nested braces":             {"split_parts: {train: ['{a,{b,c}}.tar']}", "! braces in"},
		"a brace that is not ended": {"split_parts: {train: ['{1..2.tar']}", "! braces in"},
		"no shard that is excluded": {"exclude: ['a{3..4}.tar']\nsplit_parts: {train: ['a{1..2}.tar']}", `! an entry excludes "a{3..4}.tar", which is not a shard`},
		"a name":                    {"split_parts: {'a b': [a.tar]}", "! split: name"},
		"no YAML":                   {"split_parts: [", "! yaml"},
		"too long":                  {strings.Repeat("#", hub.MaxEnergon), "! longer than"},
	} {
		splits, err := hub.ReadEnergon([]byte(c.text))
		got := ""
		for _, s := range splits {
			got += s.Name + ": "
			for _, key := range keys {
				if s.Takes(key) {
					got += key + " "
				}
			}
		}
		got = strings.Join(strings.Fields(got), " ")
		if err != nil {
			got = "! " + err.Error()
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
