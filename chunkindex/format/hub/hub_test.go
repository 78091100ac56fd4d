package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/hub"
)

// text returns configurations as text for comparison.
func text(all []hub.Config) string {
	var lines []string
	for _, c := range all {
		line := c.Name
		if c.Default {
			line += "*"
		}
		lines = append(lines, line+": "+splits(c.Splits))
	}
	return strings.Join(lines, "; ")
}

func splits(all []hub.Split) string {
	var words []string
	for _, s := range all {
		words = append(words, fmt.Sprint(s.Name, s.Patterns))
	}
	return strings.Join(words, " ")
}

// TestCards reads each notation of data_files that the hub documents.
func TestCards(t *testing.T) {
	for card, want := range map[string]string{
		"# no metadata":                        "",
		"---\nlicense: mit\n---\n# Pairs":      "",
		"---\nconfigs:\n- config_name: a\n---": "",
		"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: test\n    path:\n    - data/test-*\n    - more/**/test.jsonl\n---\n":                        "default*: train[data/train-*] test[data/test-* more/**/test.jsonl]",
		"---\r\nconfigs:\r\n- config_name: en\r\n  default: true\r\n  data_files:\r\n    train: en/train.csv\r\n    validation: [en/a.csv, en/b.csv]\r\n- config_name: de\r\n  data_files: de/*.csv\r\n---\r\n": "en*: train[en/train.csv] validation[en/a.csv en/b.csv]; de: train[de/*.csv]",
		"---\nconfigs:\n- data_files:\n  - a.csv\n  - b.csv\n---":                                                            "default*: train[a.csv b.csv]",
		"---\nconfigs:\n- config_name: fr\n  data_dir: ./fr/\n- config_name: it\n  data_dir: it\n  data_files: '*.csv'\n---": "fr: train[fr/**]; it: train[it/*.csv]",
	} {
		got, err := hub.ReadCard([]byte(card))
		if err != nil || text(got) != want {
			t.Errorf("%q: got %s, %v, want %s", card, text(got), err, want)
		}
	}
}

func TestCardsAreRefused(t *testing.T) {
	card := func(files string) string {
		return "---\nconfigs:\n- config_name: a\n  data_files: " + files + "\n---\n"
	}
	many := strings.Repeat("{split: s, path: p},", 5000)
	for in, want := range map[string]string{
		"---\nconfigs: {\n---":                  "metadata",
		card("'../secret/*'"):                   `the path contains the element ".."`,
		card("https://elsewhere.example/x.csv"): "is outside the dataset",
		card("'hf://datasets/me/x.csv'"):        "is outside the dataset",
		card("'[a'"):                            "syntax error",
		card("'**/**/**/**/x'"):                 "more than three",
		card(strings.Repeat("x", 2000)):         "pattern of 2000 bytes",
		card("[{split: 'a b', path: x}]"):       "without spaces",
		card("[{path: x}]"):                     "use 1 to",
		card("[{split: a}]"):                    "split a: no path",
		card("[{split: a, path: {b: c}}]"):      "line 3: cannot unmarshal !!map",
		card("[" + many + "]"):                  "too many",
		"---\nconfigs:\n" + strings.Repeat("- {config_name: a}\n", 5000) + "---\n": "too many",
	} {
		if got, err := hub.ReadCard([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: got %v, %v, want %q", in, got, err, want)
		}
	}
}

func TestDict(t *testing.T) {
	got, err := hub.ReadDict([]byte(`{"splits": ["train", "test_1"]}`))
	if err != nil || splits(got) != "train[train/**] test_1[test_1/**]" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, in := range []string{`{`, `{"splits": ["../x"]}`, `{"splits": [""]}`, `{"splits": ["a*"]}`} {
		if got, err := hub.ReadDict([]byte(in)); err == nil {
			t.Errorf("%s: got %v, want it refused", in, got)
		}
	}
}

func TestPatterns(t *testing.T) {
	for pattern, keys := range map[string]string{
		"data/train-*":   "data/train-0 data/train-00000-of-00012.parquet !data/x/train-0 !train-0 !data/test-0",
		"**/train.jsonl": "train.jsonl a/train.jsonl a/b/train.jsonl !a/test.jsonl",
		"a/**":           "a/b a/b/c a !b/a",
		"a/**/b/*.csv":   "a/b/x.csv a/c/d/b/x.csv !a/x.csv !a/b/c/x.csv",
		"./x-[0-9].csv":  "x-1.csv !x-a.csv",
		"/x.csv":         "x.csv",
	} {
		p, err := hub.ParsePattern(pattern)
		if err != nil {
			t.Error(err)
			continue
		}
		for key := range strings.FieldsSeq(keys) {
			key, no := strings.CutPrefix(key, "!")
			if p.Match(key) == no {
				t.Errorf("%s takes %s: got %v, want %v", pattern, key, no, !no)
			}
		}
	}
}

// FuzzCard checks that no card crashes the parser, and that ParsePattern accepts all returned
// patterns.
func FuzzCard(f *testing.F) {
	f.Add([]byte("---\nconfigs:\n- config_name: a\n  data_files:\n  - split: train\n    path: [a/**, b-*]\n---\n"))
	f.Add([]byte("---\na: &a [x, x]\nb: &b [*a, *a]\nconfigs:\n- data_files: *b\n---\n"))
	f.Fuzz(func(t *testing.T, card []byte) {
		all, err := hub.ReadCard(card)
		if err != nil && all != nil {
			t.Error("got configurations and an error")
		}
		for _, c := range all {
			for _, s := range c.Splits {
				for _, p := range s.Patterns {
					if _, err := hub.ParsePattern(p.String()); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}
