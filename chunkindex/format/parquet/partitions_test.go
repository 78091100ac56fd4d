package parquet_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/parquet"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// TestPartitions_AreColumns checks the columns of Hive partitions: their types, and the values of a
// sample of each file.
func TestPartitions_AreColumns(t *testing.T) {
	const null = "__HIVE_DEFAULT_PARTITION__"
	for name, c := range map[string]struct {
		keys  []string
		types string   // of the partitions' columns
		parts []string // bytes of these parts in the first sample of each file, as lengths
	}{
		"text":                {[]string{"label=cat/a", "label=dog%2F1/a"}, "label utf8", []string{"label 3", "label 5"}},
		"numbers":             {[]string{"y=2024/m=01/a", "y=2025/m=-7/a"}, "y int32 m int32", []string{"y 4 m 4", "y 4 m 4"}},
		"a number and a text": {[]string{"y=2024/a", "y=2024a/a"}, "y utf8", []string{"y 4", "y 5"}},
		"beyond 32 bits":      {[]string{"y=20240101/a", "y=20240101000/a"}, "y utf8", []string{"y 8", "y 11"}},
		"null":                {[]string{"y=7/a", "y=" + null + "/a"}, "y int32", []string{"y 4", ""}},
		"one partition":       {[]string{"t/y=7/a", "t/y=7/b"}, "y int32", []string{"y 4", "y 4"}},
		"a column of files":   {[]string{"id=7/a", "id=8/a"}, "", []string{"", ""}},
		"a sign":              {[]string{"y=+1/a", "y=2/a"}, "y utf8", []string{"y 2", "y 1"}},
		"an empty name":       {[]string{"=7/a", "=8/a"}, "", []string{"", ""}},
		"in the file's name":  {[]string{"y=7", "y=8"}, "", []string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			o := scantest.Objects{}
			for _, key := range c.keys {
				o[key+".parquet"] = file(t, "nested")
			}
			d, err := parquet.Format().Survey(t.Context(), o, format.Options{})
			if err != nil {
				t.Fatal(err)
			}
			f, err := framing.Read("parquet", d.Framing)
			if err != nil {
				t.Fatal(err)
			}
			var types []string
			own := map[string]bool{}
			for _, field := range format.FieldsOf(f) {
				if strings.Contains(" label y m ", " "+field.Name+" ") {
					types, own[field.Name] = append(types, field.Name+" "+field.Type), true
				}
			}
			if got := strings.Join(types, " "); got != c.types {
				t.Errorf("got columns %q, want %q", got, c.types)
			}
			samples, err := scantest.Scan(t.Context(), parquet.Format(), format.Options{}, o)
			if err != nil {
				t.Fatal(err)
			}
			for i, key := range c.keys {
				var parts []string
				for _, p := range samples[key+".parquet"][0].Parts {
					if own[p.Ext] {
						parts = append(parts, p.Ext+" "+string(rune('0'+p.Length%10)))
					}
				}
				want := strings.ReplaceAll(c.parts[i], " 11", " 1")
				if diff := cmp.Diff(want, strings.Join(parts, " ")); diff != "" {
					t.Errorf("%s (-want +got):\n%s", key, diff)
				}
			}
			scantest.Parts(t, scantest.Dataset{Format: parquet.Format(), Objects: o})
		})
	}
	chosen := scantest.Objects{"label=cat/a.parquet": file(t, "nested"), "label=dog/a.parquet": file(t, "nested-pages-v1")}
	for names, want := range map[string]string{"label,captions": "captions label", "captions": "captions", "image.path,label": "image.path label"} {
		d, err := parquet.Format().Survey(t.Context(), chosen, format.Options{Fields: strings.Split(names, ",")})
		if err != nil {
			t.Fatal(err)
		}
		f, err := framing.Read("parquet", d.Framing)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, field := range format.FieldsOf(f) {
			got = append(got, field.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("columns %s: got %q, want %s", names, got, want)
		}
	}
	scantest.Refuses(t, parquet.Format(), format.Options{Fields: []string{"label"}}, chosen, `choose a column of the files too`)
	scantest.Refuses(t, parquet.Format(), format.Options{}, scantest.Objects{"label=%ff/a.parquet": file(t, "nested")}, `directory "label=%ff": not UTF-8`)
	scantest.Refuses(t, parquet.Format(), format.Options{}, scantest.Objects{"captions=1/a.parquet": file(t, "nested"), "captions=2/b.parquet": file(t, "checksums")}, `column "captions" is of type list in object captions=1/a.parquet, and of type int32 in directory names`)
	one, other := file(t, "nested"), file(t, "nested-pages-v1")
	scantest.Refuses(t, parquet.Format(), format.Options{}, scantest.Objects{"y=1/a.parquet": one, "b.parquet": other}, "objects b.parquet and y=1/a.parquet are in directories of different partitions")
	scantest.Refuses(t, parquet.Format(), format.Options{}, scantest.Objects{"y=%zz/a.parquet": one}, `directory "y=%zz": invalid URL escape`)
}
