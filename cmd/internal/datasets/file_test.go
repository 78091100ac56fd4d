package datasets

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/cmd/internal/location"
)

const whole = `# what we train on
datasets:
  photos: /data/photos
  texts:
    url: s3://texts/c4
    index: s3://mine/c4-index
    endpoint: https://minio.example:9000
    region: eu-central-1
    profile: team-b
    path_style: true
    ca_file: /etc/ca.pem
    bandwidth: 500MB
  linked: {url: /data/linked, links: follow}
mixtures:
  both: photos:7,texts:3
`

func TestParse_WholeFile(t *testing.T) {
	s, err := Parse("sets.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range s.Datasets {
		got = append(got, d.At+" "+d.Name+" "+d.Address())
	}
	texts, err := location.Parse("texts=s3://texts/c4?endpoint=https://minio.example:9000&region=eu-central-1&profile=team-b&path_style=true&ca_file=/etc/ca.pem&bandwidth=500MB,index=s3://mine/c4-index")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"sets.yaml:3 photos file:///data/photos", "sets.yaml:4 texts " + texts.Address(), "sets.yaml:13 linked file:///data/linked,links=follow"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if m := s.Mixtures; len(m) != 1 || m[0].At != "sets.yaml:15" || m[0].Name != "both" || m[0].Sources[0].Share != 7 {
		t.Errorf("got %+v, want one mixture", m)
	}
}

// TestParse_FileOfDocumentation parses the file in docs/operations.md.
func TestParse_FileOfDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n```yaml\ndatasets:\n")
	text, _, _ := strings.Cut(rest, "```\n")
	s, err := Parse("f", []byte("datasets:\n"+text))
	if err != nil || !found || len(s.Datasets) != 3 || len(s.Mixtures) != 2 {
		t.Errorf("found %v: got %+v, %v, want three datasets and two mixtures", found, s, err)
	}
}

func TestParse_EmptyFile(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "datasets:\n"} {
		if s, err := Parse("f", []byte(text)); err != nil || len(s.Datasets) != 0 {
			t.Errorf("%q: got %v, %v, want nothing", text, s, err)
		}
	}
}

// TestParse_ReportsAllFaults: one error reports all faults, each with file and line.
func TestParse_ReportsAllFaults(t *testing.T) {
	for text, want := range map[string][]string{
		"datasets: [a]":                                       {"f:1: datasets: must be names with values"},
		"datasets:\n  a: /x\nsets: {}":                        {`f:3: unknown key "sets"`},
		"datasets:\n  a: /x\n  a: /y":                         {`f:3: datasets: "a" is given twice`},
		"datasets:\n  a/b: /x\n  c: ftp://x":                  {`f:2: dataset "a/b": the name must be`, `f:3: dataset "c=ftp://x": `},
		"datasets:\n  a: {url: /x, links: no}":                {"f:2: dataset a: links: must be follow"},
		"datasets:\n  a:\n    url: /x\n    region: eu":        {"f:4: dataset a: region: only addresses of buckets"},
		"datasets:\n  a:\n    url: s3://bucket/x\n    uri: y": {"f:4: dataset a: parameter uri: must be one of"},
		"datasets:\n  a: {region: eu}":                        {"f:2: dataset a: must be an address, or a mapping with url: ADDRESS"},
		"datasets:\n  a:\n    url: [/x]":                      {"f:3: dataset a: url: must be a plain value"},
		"datasets:\n  a:":                                     {"f:2: dataset a: must be an address"},
		"mixtures:\n  m: [a, b]\n  n: 'a:0'":                  {`f:2: mixture "m": must be SOURCE:WEIGHT`, `f:3: mixture "n": a:0: `},
		"datasets:\n  a: /x\n---\ndatasets:\n":                {"f: must be one YAML document"},
		"datasets:\n  a: 'x":                                  {"f: yaml: line 2"},
		"datasets:\n  a: s3://AKIA:secret@bucket/x":           {`f:2: dataset "a=s3://***@bucket/x": `},
	} {
		_, err := Parse("f", []byte(text))
		if err == nil {
			t.Errorf("%q: got no error, want %q", text, want)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: got %q, want %q", text, err, w)
			}
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %q, which repeats a secret", text, err)
		}
	}
}

func TestAnd_RejectsDuplicateNames(t *testing.T) {
	flags := Flags([]location.Location{{Name: "a", Dir: "/a"}}, nil)
	more, err := Parse("f", []byte("datasets:\n  b: /b\n  c: /c\nmixtures:\n  c: a:1,b:1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flags.And(more); err == nil || err.Error() != "f:5: mixture c: the name is given twice, first at f:3" {
		t.Errorf("got %v, want what is given twice", err)
	}
	more.Mixtures = nil
	s, err := flags.And(more)
	if err != nil || len(s.Datasets) != 3 || s.Datasets[0].Name != "a" || s.Datasets[1].Name != "b" {
		t.Errorf("got %+v, %v, want those of the flags first", s, err)
	}
	if _, err := s.And(flags); err == nil || !strings.Contains(err.Error(), "dataset a: a flag has this name already") {
		t.Errorf("got %v, want what is given twice", err)
	}
	if _, err := (Set{}).And(Set{}); err == nil || !strings.Contains(err.Error(), "no dataset") {
		t.Errorf("got %v, want an error without datasets", err)
	}
}
