package datasets

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/gateway"
)

func TestParseMixture(t *testing.T) {
	source := func(name string, weight, perBatch uint64) gateway.MixtureSource {
		return gateway.MixtureSource{Dataset: name, Weight: weight, PerBatch: perBatch}
	}
	for text, want := range map[string]gateway.Mixture{
		"m=a:3,b":                   {Name: "m", Sources: []gateway.MixtureSource{source("a", 3, 0), source("b", 1, 0)}},
		"m=a:3,b:1,samples=100":     {Name: "m", Samples: 100, Sources: []gateway.MixtureSource{source("a", 3, 0), source("b", 1, 0)}},
		"m=a,b,choose=1000/500":     {Name: "m", Samples: 1500, Sources: []gateway.MixtureSource{source("a", 1000, 0), source("b", 500, 0)}},
		"m=a,b,per-batch=48/16":     {Name: "m", Sources: []gateway.MixtureSource{source("a", 1, 48), source("b", 1, 16)}},
		"m=a,samples=9,per-batch=3": {Name: "m", Samples: 9, Sources: []gateway.MixtureSource{source("a", 1, 3)}},
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
		"a:3,b:1":                        "want NAME=",
		"m=a:0":                          "whole number from 1",
		"m=a:x":                          "whole number from 1",
		"m=":                             "want the name of a dataset",
		"m=a,repeat=3":                   "want samples, choose or per-batch",
		"m=a,samples=x":                  "invalid syntax",
		"m=a,b,choose=1":                 "1 numbers for 2 sources",
		"m=a,b,per-batch=1/0":            "whole number from 1",
		"m=a,choose=1,samples=2":         "excludes",
		"m=a,b,choose=1/2,per-batch=1/2": "excludes",
	} {
		if _, err := ParseMixture(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
