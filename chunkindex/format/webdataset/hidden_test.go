package webdataset_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/webdataset"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// TestHiddenMembers checks that hidden members are not parts of samples and do not end samples.
// Their bytes are between samples, or inside the sample that surrounds them.
func TestHiddenMembers(t *testing.T) {
	b := archive(t,
		member{name: "./._0.jpg", body: "finder"}, member{name: "./0.jpg", body: "0"}, member{name: "./._0.cls", body: "finder"}, member{name: "./0.cls", body: "5"},
		member{name: ".git/config", body: "c"}, member{name: "__MACOSX/1.jpg", body: "m"}, member{name: "./1.jpg", body: "1"},
		member{name: "d/Thumbs.db", body: "t"}, member{name: "d/.DS_Store", body: strings.Repeat("long", 1<<19)}, member{name: "d/desktop.ini"},
	)
	got, err := scan(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"./0|jpg|cls", "./1|jpg"}, keys(got)); d != "" {
		t.Error(d)
	}
	if want := []int64{1024, 1024 + 3*1024}; got[0].Offset != want[0] || got[0].Offset+got[0].Length != want[1] || got[1].Length != 1024 {
		t.Errorf("got %+v, want the first sample at %v, and nothing hidden in the second", got, want)
	}
	for _, s := range got {
		for _, p := range s.Parts {
			if at := s.Offset + p.Offset; bytes.Contains(b[at:at+p.Length], []byte("finder")) {
				t.Errorf("a hidden member is a part of %s", s.Key)
			}
		}
	}
	all, err := scantest.Scan(t.Context(), webdataset.Format(), format.Options{Hidden: true}, scantest.Objects{"a.tar": archive(t, member{name: "d/.a"}, member{name: "b"})})
	if d := cmp.Diff([]string{"d/.a|", "b|"}, keys(all["a.tar"])); err != nil || d != "" {
		t.Error(err, d)
	}
}

// TestScan_LongHiddenMembersEndASample checks that hidden members that are too long to hold end the
// preceding sample. If that sample continues after them, it must be rejected.
func TestScan_LongHiddenMembersEndASample(t *testing.T) {
	got, err := scan(archive(t, member{name: "a.jpg"}, member{name: "._a", body: strings.Repeat("long", 1<<19)}, member{name: "a.cls"}))
	if d := cmp.Diff([]string{"a|jpg", "a|cls"}, keys(got)); err != nil || d != "" {
		t.Error(err, d)
	}
}

// TestSurvey_CountsHiddenMembers checks that the survey's counter counts the members that scans
// skip.
func TestSurvey_CountsHiddenMembers(t *testing.T) {
	d, err := webdataset.Format().Survey(t.Context(), scantest.Objects{"a.tar": nil}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := archive(t, member{name: "._0"}, member{name: "0"}, member{name: ".x/1"})
	if err := d.Scan(t.Context(), 0, bytes.NewReader(b), scantest.Nothing{}); err != nil || d.HiddenMembers() != 2 {
		t.Errorf("got %d hidden members, %v, want 2", d.HiddenMembers(), err)
	}
}
