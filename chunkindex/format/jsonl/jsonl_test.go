package jsonl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/jsonl"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func scan(o format.Options, objects scantest.Objects) (map[string][]scantest.Sample, error) {
	return scantest.Scan(context.Background(), jsonl.Format(), o, objects)
}

func sample(key string, offset, text, end int64) scantest.Sample {
	return scantest.Sample{Key: key, Offset: offset, Length: text + end, Parts: []scantest.Part{{Ext: "json", Length: text}}}
}

func TestShards(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 300<<10) + `"}`
	for name, c := range map[string]struct {
		named   bool
		objects scantest.Objects
		want    map[string][]scantest.Sample
	}{
		"lines": {
			false,
			scantest.Objects{"a.jsonl": []byte("{}\n[1]\n\n \t\n\"x\"\r\n\r\n null \n"), "d/b.ndjson": nil, "c.json": []byte("{}\n{}\n"), "README.md": nil, ".d.jsonl": []byte("x")},
			map[string][]scantest.Sample{
				"a.jsonl":    {sample("a/000000000", 0, 2, 1), sample("a/000000001", 3, 3, 1), sample("a/000000002", 11, 3, 2), sample("a/000000003", 18, 6, 1)},
				"d/b.ndjson": nil,
			},
		},
		"no line feed, byte order mark, spaces at the end": {
			false,
			scantest.Objects{"a.jsonl": []byte("{}\n[1]"), "b.jsonl": []byte("\xef\xbb\xbf{}\r\n\"x\"\r"), "c.jsonl": []byte("{}\n \t"), "d.jsonl": []byte("\xef\xbb\xbf")},
			map[string][]scantest.Sample{
				"a.jsonl": {sample("a/000000000", 0, 2, 1), sample("a/000000001", 3, 3, 1)}, "b.jsonl": {sample("b/000000000", 3, 2, 2), sample("b/000000001", 7, 3, 2)},
				"c.jsonl": {sample("c/000000000", 0, 2, 1)}, "d.jsonl": nil,
			},
		},
		"a line longer than the buffer": {
			false,
			scantest.Objects{"a.jsonl": []byte("1\n" + long + "\r\n2\n")},
			map[string][]scantest.Sample{"a.jsonl": {sample("a/000000000", 0, 1, 1), sample("a/000000001", 2, int64(len(long)), 2), sample("a/000000002", int64(len(long))+4, 1, 1)}},
		},
		"by content": {
			false,
			scantest.Objects{"a.json": []byte("{\"a\": 1}\n{\"a\": 2}\n")},
			map[string][]scantest.Sample{"a.json": {sample("a/000000000", 0, 8, 1), sample("a/000000001", 9, 8, 1)}},
		},
		"by content, the second line only begun": {
			false,
			scantest.Objects{"a.json": []byte("{}\n{\"a\":\"" + strings.Repeat("x", 5000) + "\"}\n")},
			map[string][]scantest.Sample{"a.json": {sample("a/000000000", 0, 2, 1), sample("a/000000001", 3, 5008, 1)}},
		},
		"everything, asked for by name": {
			true,
			scantest.Objects{"a.json": []byte("{}\n{}\n"), "b.jsonl": []byte("{}\n"), "c": []byte("1\n"), "README.md": []byte("about"), "dataset_info.json": []byte("{\n}\n"), "_SUCCESS": nil},
			map[string][]scantest.Sample{
				"a.json": {sample("a/000000000", 0, 2, 1), sample("a/000000001", 3, 2, 1)}, "b.jsonl": {sample("b/000000000", 0, 2, 1)}, "c": {sample("c/000000000", 0, 1, 1)},
			},
		},
		"by content, long first lines": {
			false,
			scantest.Objects{
				"a.json": []byte("{}\n{}\n"), "b.json": []byte("{\"a\":\"" + strings.Repeat("x", 5000) + "\"}\n{}\n"),
				"c.json": []byte("{\"a\":\"" + strings.Repeat("x", 300<<10) + "\"}\n{}\n"), "d.json": []byte("{}\n"), "e.json": nil,
			},
			map[string][]scantest.Sample{
				"a.json": {sample("a/000000000", 0, 2, 1), sample("a/000000001", 3, 2, 1)}, "b.json": {sample("b/000000000", 0, 5008, 1), sample("b/000000001", 5009, 2, 1)},
				"c.json": {sample("c/000000000", 0, 300<<10+8, 1), sample("c/000000001", 300<<10+9, 2, 1)}, "d.json": {sample("d/000000000", 0, 2, 1)}, "e.json": nil,
			},
		},
		"one long value":    {false, scantest.Objects{"a.json": []byte("{}\n{}\n"), "coco.json": []byte("{\"a\":[" + strings.Repeat("1,\n", 5000) + "1]}")}, nil},
		"names in capitals": {false, scantest.Objects{"A.JSONL": []byte("1\n")}, map[string][]scantest.Sample{"A.JSONL": {sample("A/000000000", 0, 1, 1)}}},
		"among others":      {false, scantest.Objects{"a.json": []byte("{}\n{}\n"), "info.json": []byte("{\n}\n")}, nil},
		"an object a file":  {false, scantest.Objects{"a.json": []byte("{}\n")}, nil},
		"objects on several lines": {
			false,
			scantest.Objects{"a.json": []byte("{}\n{\n}\n"), "b.json": []byte("{\n \"a\": \"}\\\"\"}{\"b\":[ 1 , {} ]}")},
			map[string][]scantest.Sample{"a.json": {sample("a/000000000", 0, 2, 1), sample("a/000000001", 3, 2, 1)}, "b.json": {sample("b/000000000", 0, 11, 1), sample("b/000000001", 12, 12, 1)}},
		},
		"arrays": {
			false,
			scantest.Objects{"a.json": []byte("\xef\xbb\xbf [\n{},\n{\"a\" : 1.50, \"b\":\"\\u00e4 \"}\n]\n"), "b.json": []byte("[{},null,-1e5,true,\"x\",[1 ,2]]"), "c.json": []byte("{}\n{}\n"), "d.json": nil},
			map[string][]scantest.Sample{
				"a.json": {sample("a/000000000", 0, 2, 1), sample("a/000000001", 3, 24, 1)},
				"b.json": {sample("b/000000000", 0, 2, 1), sample("b/000000001", 3, 4, 1), sample("b/000000002", 8, 4, 1), sample("b/000000003", 13, 4, 1), sample("b/000000004", 18, 3, 1), sample("b/000000005", 22, 5, 1)},
				"c.json": {sample("c/000000000", 0, 2, 1), sample("c/000000001", 3, 2, 1)}, "d.json": nil,
			},
		},
		"an array next to other objects": {false, scantest.Objects{"a.json": []byte("[{}]"), "a.parquet": []byte("x")}, nil},
		"an empty array, and another one": {
			false, scantest.Objects{"a.json": []byte(" [ ]\n"), "b.json": []byte("[{}]")},
			map[string][]scantest.Sample{"a.json": nil, "b.json": {sample("b/000000000", 0, 2, 1)}},
		},
		"arrays of any values, asked for by name": {
			true, scantest.Objects{"a.json": []byte("[\n  1,\n  [2]\n]\n"), "b.json": []byte("[[1,2],[3]]"), "c.json": []byte("[1]\n[2]\n")},
			map[string][]scantest.Sample{
				"a.json": {sample("a/000000000", 0, 1, 1), sample("a/000000001", 2, 3, 1)}, "b.json": {sample("b/000000000", 0, 5, 1), sample("b/000000001", 6, 3, 1)},
				"c.json": {sample("c/000000000", 0, 3, 1), sample("c/000000001", 4, 3, 1)},
			},
		},
		"an array of numbers": {false, scantest.Objects{"a.json": []byte("[1, 2]")}, nil},
		"any JSON, asked for by name": {
			true,
			scantest.Objects{"a.json": []byte("{\n}"), "b.txt": []byte("[ {} ]"), "c": []byte("1\n[2]\n")},
			map[string][]scantest.Sample{"a.json": {sample("a/000000000", 0, 2, 1)}, "b.txt": {sample("b.txt/000000000", 0, 2, 1)}, "c": {sample("c/000000000", 0, 1, 1), sample("c/000000001", 2, 3, 1)}},
		},
		"numbers": {false, scantest.Objects{"a.json": []byte("1\n2\n")}, nil},
		"nothing": {false, scantest.Objects{"a.txt": []byte("{}\n{}\n")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			scantest.Finds(t, jsonl.Format(), format.Options{Named: c.named}, c.objects, c.want)
		})
	}
}

// TestScan_RefusesMalformedArrays and values that are cut, with the place.
func TestScan_RefusesMalformedArrays(t *testing.T) {
	for text, want := range map[string]string{
		"[{},{}":        "the array does not end",
		"[{},{\"a\":":   "value at offset 4: unexpected EOF",
		"[{},,{}]":      "the value at offset 5 follows 2 commas",
		"[{} {}]":       "the value at offset 4 follows 0 commas",
		"[{},]":         "unexpected ']' at offset 4",
		"[{}]]":         "unexpected ']' at offset 4",
		"[{}] {}":       "more data follows the end of the array at offset 3",
		"[{}],":         "more data follows the end of the array at offset 3",
		"[{},{a:1}]":    "value at offset 4: invalid character 'a'",
		"[{},NaN]":      "value at offset 4: invalid character 'N' looking for beginning of value: NaN and Infinity are not JSON",
		"[{},\"\xff\"]": "line 2: not UTF-8",
		"{\n}{},{}":     "the value at offset 6 follows 1 commas",
		"{\n}{}}":       "unexpected '}' at offset 5",
		"{\n}{} 1":      "value at offset 6 is not an object",
		"[{}" + strings.Repeat(",{}", 5000) + ",{\"a\"}]": "value at offset 15004: invalid character '}'",
	} {
		_, err := scan(format.Options{}, scantest.Objects{"a.json": []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "shard a.json") {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
	packed := scantest.Objects{"a.json": []byte("[{}]"), "b.json.gz": []byte("x")}
	if _, err := jsonl.Format().Survey(t.Context(), packed, format.Options{Named: true}); err == nil || !strings.Contains(err.Error(), "b.json.gz is compressed") {
		t.Errorf("a compressed object: got %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"{}\n12":                          "at offset 3: line 2: the last line is a number without a line feed",
		"{}\n{":                           "at offset 3: line 2: not JSON",
		"{}\n{\"a\":}\n":                  "at offset 8: line 2: not JSON",
		"{}\n\n{} {}\n":                   "at offset 7: line 3: not JSON",
		"{}\n{\"a\": NaN}\n":              "at offset 9: line 2: not JSON: invalid character 'N' looking for beginning of value: NaN and Infinity are not JSON: write null",
		"[-Infinity]\n":                   "line 1: not JSON: invalid character 'I' in numeric literal: NaN and Infinity are not JSON",
		"[nul]\n":                         "line 1: not JSON: invalid character ']' in literal null (expecting 'l')",
		"{\n}\n":                          "line 1: not JSON",
		"{}\n\xef\xbb\xbf{}\n":            "line 2: not JSON",
		"{\"a\":\r1}\n":                   "at offset 5: line 1: a carriage return in the middle",
		"{}\r\r\n":                        "line 1: a carriage return in the middle",
		"{}\r{}\r":                        "at offset 2: line 1: a carriage return in the middle",
		"{\"a\":\"\xff\"}\n":              "at offset 6: line 1: not UTF-8",
		"\xff\xfe{\x00}\x00\n\x00":        "line 1: not UTF-8",
		"{\x00}\n":                        "line 1: not JSON",
		strings.Repeat("[", 20000) + "\n": "line 1: not JSON: invalid character '[' exceeded max depth: store the value as a string",
	} {
		got, err := scan(format.Options{}, scantest.Objects{"a.jsonl": []byte(text)})
		var where *format.Error
		if !errors.As(err, &where) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "shard a.jsonl") {
			t.Errorf("%.40q: got %v, %v, want %q", text, got, err, want)
		}
	}
	scantest.Refuses(t, jsonl.Format(), format.Options{Named: true}, scantest.Objects{"a.jsonl": []byte("{}\n"), "b.png": []byte("\x89PNG\n")}, "shard b.png: at offset 0: line 1: not UTF-8")
	for text, want := range map[string]string{
		"\x1f\x8b\x08\x00\x00": "object a.json: it is compressed by gzip, but its name does not say so: let its name end in .gz",
		"\xff\xfe{\x00}\x00":   "object a.json: it is UTF-16, not UTF-8: convert it",
		"\xfe\xff\x00{\x00}":   "object a.json: it is UTF-16, not UTF-8: convert it",
	} {
		scantest.Refuses(t, jsonl.Format(), format.Options{}, scantest.Objects{"a.json": []byte(text), "b.json": []byte("{}\n{}\n")}, want)
	}
}

func TestFraming(t *testing.T) {
	f, err := framing.Read("jsonl", nil)
	if err != nil {
		t.Fatal(err)
	}
	if before, after, err := f.Frame([]uint32{17}); before != nil || after != nil || err != nil {
		t.Errorf("got %q, %q, %v, want nothing", before, after, err)
	}
	if _, err := framing.Read("jsonl", []byte("{}")); err == nil {
		t.Error("constants: got no error")
	}
}

// endless reads a line that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestEndlessLine checks that an endless line is rejected at the maximum length. The scan may
// allocate only a few times as much memory.
func TestEndlessLine(t *testing.T) {
	d, err := jsonl.Format().Survey(t.Context(), scantest.Objects{"a.jsonl": nil}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = d.Scan(t.Context(), 0, endless{}, scantest.Nothing{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "line 1: longer than 67108864 bytes") {
		t.Errorf("got %v, want one that names the limit", err)
	}
	if n := int64(after.HeapSys) - int64(before.HeapSys); n > 8*jsonl.MaxLine {
		t.Errorf("got %d bytes more", n)
	}
}

func TestFaultOfTheStore(t *testing.T) {
	scantest.Faults(t, jsonl.Format(), format.Options{}, "a.jsonl", []byte("{}\n\n[1]\n"))
}

// FuzzScanJSONL checks that an accepted file consists of valid JSON lines, with only white space
// between them.
func FuzzScanJSONL(f *testing.F) {
	f.Add([]byte("{}\n[1]\n\n \t\n\"x\"\r\n"))
	f.Add([]byte("{}\r{}\n"))
	f.Add([]byte("\xef\xbb\xbf{}\n"))
	f.Add([]byte("{}\r\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := scan(format.Options{}, scantest.Objects{"a.jsonl": b})
		scantest.Refused(t, err)
		if err != nil {
			return
		}
		var values, want []json.RawMessage
		at := int64(0)
		for _, s := range found["a.jsonl"] {
			if gap := bytes.TrimPrefix(b[at:s.Offset], []byte("\xef\xbb\xbf")); len(bytes.TrimSpace(gap)) > 0 {
				t.Fatalf("gap %q", gap)
			}
			at = s.Offset + s.Length
			values = append(values, json.RawMessage(bytes.TrimSpace(b[s.Offset:s.Offset+s.Parts[0].Length])))
		}
		for line := range bytes.Lines(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				want = append(want, json.RawMessage(line))
			}
		}
		if d := cmp.Diff(want, values); d != "" {
			t.Fatal(d)
		}
		for _, v := range values {
			if !json.Valid(v) {
				t.Fatalf("%q is not JSON", v)
			}
		}
	})
}
