package datasets

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/gateway/address"
)

func TestParseMixture(t *testing.T) {
	source := func(name string, share uint64) address.Source { return address.Source{Dataset: name, Share: share} }
	for text, want := range map[string]Mixture{
		"m=a:6,b:2":                 {Name: "m", Mixture: address.Mixture{Sources: []address.Source{source("a", 6), source("b", 2)}}},
		"m=a:3,b:1,samples=100":     {Name: "m", Mixture: address.Mixture{Samples: 100, Sources: []address.Source{source("a", 3), source("b", 1)}}},
		"m=a:48,b:16,per-batch":     {Name: "m", Mixture: address.Mixture{Sources: []address.Source{source("a", 48), source("b", 16)}, PerBatch: true}},
		"m=a:3,samples=9,per-batch": {Name: "m", Mixture: address.Mixture{Samples: 9, Sources: []address.Source{source("a", 3)}, PerBatch: true}},
	} {
		got, err := ParseMixture(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	none := strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		"a:3,b:1":                          "must be NAME=",
		"m=a:0":                            "a:0: must be SOURCE:SHARE, with a whole number from 1",
		"m=a:x":                            "a:x: must be SOURCE:SHARE",
		"m=":                               "must be SOURCE:SHARE",
		"m=a:1,repeat=3":                   "repeat=3: must be SOURCE:SHARE",
		"m=a:1,samples=x":                  "must be an unsigned decimal number",
		"m=a(subset=samples:0-3):1,b:1":    "must have whole datasets",
		"m=a:1,samples=9,schedule=" + none: "must have whole datasets and no stored schedule",
	} {
		if _, err := ParseMixture(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
