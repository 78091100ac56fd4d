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
		"m=a:3,b":                   {Name: "m", Mixture: address.Mixture{Sources: []address.Source{source("a", 3), source("b", 1)}}},
		"m=a:3,b:1,samples=100":     {Name: "m", Mixture: address.Mixture{Samples: 100, Sources: []address.Source{source("a", 3), source("b", 1)}}},
		"m=a,b,choose=1000/500":     {Name: "m", Mixture: address.Mixture{Samples: 1500, Sources: []address.Source{source("a", 1000), source("b", 500)}}},
		"m=a,b,per-batch=48/16":     {Name: "m", Mixture: address.Mixture{Sources: []address.Source{source("a", 48), source("b", 16)}, PerBatch: true}},
		"m=a,samples=9,per-batch=3": {Name: "m", Mixture: address.Mixture{Samples: 9, Sources: []address.Source{source("a", 3)}, PerBatch: true}},
	} {
		got, err := ParseMixture(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"a:3,b:1":                        "must be NAME=",
		"m=a:0":                          "whole number, at least 1",
		"m=a:x":                          "whole number, at least 1",
		"m=":                             "must be the name of a dataset",
		"m=a,repeat=3":                   "must be samples=, choose= or per-batch=",
		"m=a,samples=x":                  "invalid syntax",
		"m=a,b,choose=1":                 "1 numbers for 2 sources",
		"m=a,b,per-batch=1/0":            "whole number of at least 1",
		"m=a,choose=1,samples=2":         "excludes",
		"m=a,b,choose=1/2,per-batch=1/2": "excludes",
	} {
		if _, err := ParseMixture(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
