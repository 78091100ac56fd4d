package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestChart_IsWhatTheRowsMake(t *testing.T) {
	root, files := committed(t)
	want, err := chart(files)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", chartFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/%s is not what the rows make: run make figures", chartFile)
	}
}

func TestChart_IsWellFormed(t *testing.T) {
	_, files := committed(t)
	drawn, err := chart(files)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(drawn)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestComparison_TakesTheBestOtherLoader(t *testing.T) {
	files := []File{{Section: "peers", Blocks: []Block{
		{Text: "## Title"},
		{Head: []string{"workers", "", "rate", "against it", "memory", "gateway"}, Rows: [][]string{
			{"0", "Millrace, tar", "2,000", "", "300", "100"},
			{"0", "Millrace, MDS", "**4,000**", "", "200", "100"},
			{"0", "A", "1,000", "1.50 x (1.40 - 1.60)", "**100**", ""},
			{"0", "B", "500", "3.00 x (2.90 - 3.10)", "400", ""},
			{"4", "Millrace, tar", "900", "", "500 (480 - 510)", "100"},
			{"4", "A", "1,800", "0.50 x (0.40 - 0.60)", "300 (290 - 310)", ""},
		}},
		{Head: []string{"set", "", "rate"}, Rows: [][]string{{"photos", "Millrace, tar", "1"}, {"photos", "A", "1,000"}}},
	}}}
	for _, c := range []struct {
		comparison
		want span
	}{
		{comparison{columns: []string{"rate"}}, span{0.5, 4}},
		{comparison{columns: []string{"rate"}, paired: true}, span{0.5, 1.5}},
		{comparison{columns: []string{"memory"}, cost: true}, span{5. / 3, 3}},
		{comparison{columns: []string{"memory", "gateway"}, cost: true}, span{2, 4}},
	} {
		c.section = "peers"
		if got, err := c.measure(files); err != nil || got != c.want {
			t.Errorf("%v, paired %v: got %v, %v; want %v", c.columns, c.paired, got, err, c.want)
		}
	}
}

func TestComparison_RejectsTablesWithoutItsFigures(t *testing.T) {
	table := func(rows ...[]string) []File {
		return []File{{Section: "peers", Blocks: []Block{{Head: []string{"", "rate"}, Rows: rows}}}}
	}
	for name, files := range map[string][]File{
		"no section":       nil,
		"no rows":          table(),
		"no other loader":  table([]string{"Millrace", "1"}),
		"no number":        table([]string{"Millrace", "1"}, []string{"A", "fast"}),
		"no figure":        table([]string{"Millrace", "1"}, []string{"A", ""}),
		"nothing measured": table([]string{"Millrace", "0"}, []string{"A", "1"}),
	} {
		if got, err := (comparison{section: "peers", columns: []string{"rate"}}).measure(files); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
	}
}

func TestAxis_HoldsAllRangesAndOne(t *testing.T) {
	if got, want := axisOf([]span{{1.1, 3}, {0.6, 0.9}}), (axis{0.5, 4}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := axisOf([]span{{2.5, 3}}), (axis{1, 4}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
