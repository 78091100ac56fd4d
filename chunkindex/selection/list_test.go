package selection

import (
	"bytes"
	"testing"
)

func TestStored_ReportsFaults(t *testing.T) {
	s, st := newStore(t)
	d := testDataset(10)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	digest, _, err := s.Quarantine(t.Context(), testQuarantine())
	if err != nil {
		t.Fatal(err)
	}
	costs := storeCosts(t, s, d)
	split, list, table := readObject(t, st, home+subsetDir+m.Digest), readObject(t, st, home+quarantineDir+digest), readObject(t, st, home+costDir+costs)
	other := bytes.Clone(list)
	other[7] = '2'
	foreign := bytes.Clone(list)
	foreign[0] = 'x'
	zero := bytes.Replace(split, []byte(`"val","part":1`), []byte(`"val","part":0`), 1)
	want := map[string]string{
		m.Digest: "", digest: "", costs: "",
		named(st, subsetDir, split[:splitHeader-1]):         "corrupt: invalid size of a split: 83 bytes",
		named(st, subsetDir, split[:splitHeader]):           "corrupt: it is truncated in its rule",
		named(st, subsetDir, changedSplit(split, 8, 32, 9)): "split of version 9: written by a newer program",
		named(st, subsetDir, zero):                          `rule: invalid: subset "val": its part is 0: must be at least 1`,
		named(st, quarantineDir, list[:quarantineHeader-1]): "corrupt: invalid size of a quarantine: 51 bytes",
		named(st, quarantineDir, other):                     `quarantine of version "02": written by a newer program`,
		named(st, quarantineDir, foreign):                   "corrupt: not a quarantine",
		named(st, quarantineDir, list[:quarantineHeader]):   "",
		named(st, costDir, table[:costHeader-1]):            "corrupt: invalid size of a cost table: 47 bytes",
		named(st, costDir, table[:costHeader]):              "corrupt: it has 48 bytes, which is not the size of a table of 10 samples",
	}
	st.Set(home+subsetDir+"default-x", nil)
	st.Set(home+subsetDir+"x", nil)
	st.Set(home+costNames+d.Generation()+"-odd", []byte("{"))
	all, err := s.Stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	note := func(digest string, fault error) {
		if got[digest] = ""; fault != nil {
			got[digest] = fault.Error()
		}
	}
	for _, x := range all.Splits {
		note(x.Digest, x.Fault)
		if x.Default != (x.Digest == m.Digest) || x.Fault == nil && (x.Generation != d.Generation() || x.Rule.String() != "train=9,val=1") {
			t.Errorf("got %+v", x)
		}
		if x.Fault != nil && (x.Generation != "" || len(x.Rule.Parts) > 0) {
			t.Errorf("got %+v, want no more than a digest and the fault", x)
		}
	}
	for _, x := range all.Quarantines {
		note(x.Digest, x.Fault)
		if x.Fault == nil && (x.Bad != 3 || x.Generation != testQuarantine().Generation) {
			t.Errorf("got %+v", x)
		}
	}
	for _, x := range all.Costs {
		note(x.Digest, x.Fault)
		if x.Fault == nil && (x.Samples != 10 || x.Generation != d.Generation()) || x.Fault != nil && x.Generation != "" {
			t.Errorf("got %+v", x)
		}
	}
	if len(all.CostNames) != 2 {
		t.Errorf("got names %+v, want the unreadable one too", all.CostNames)
	}
	if len(all.Defaults) != 1 || all.Defaults[0].Generation != d.Generation() {
		t.Errorf("got defaults %+v, want that of the generation", all.Defaults)
	}
	for digest, fault := range want {
		if found, ok := got[digest]; !ok || found != fault {
			t.Errorf("%.12s: got %q, %t, want %q", digest, found, ok, fault)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d objects, want %d", len(got), len(want))
	}
}
