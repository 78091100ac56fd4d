package jsonvalue_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-data/millrace/chunkindex/codec/jsonvalue"
)

// TestDecode compares lines with those of json.Decoder and json.Compact, for input in pieces of one
// byte too.
func TestDecode(t *testing.T) {
	values := []string{`{"a": [1, {"b": "]}\"\\"}], "c" : 1.50}`, "\n[ ]", `"x,\u0000"`, "-1e9", "true\n", "null", `{"long": "` + strings.Repeat(`\"`, 2<<20) + `"}`}
	stored := strings.Join(values, " ,\n")
	var want bytes.Buffer
	for _, v := range values {
		if err := json.Compact(&want, []byte(v)); err != nil {
			t.Fatal(err)
		}
		want.WriteByte('\n')
	}
	got := make([]byte, want.Len())
	if err := jsonvalue.Decode(nil, []byte(stored+"] and more"), got); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("got %.200q, %v, want %.200q", got, err, want.Bytes())
	}
	r := jsonvalue.NewReader(iotest.OneByteReader(strings.NewReader(stored[:100])), 5)
	for i, v := range values[:3] {
		line, err := r.Next(nil)
		v = strings.TrimSpace(v)
		if at := r.Begin - 5; err != nil || stored[at:r.End-5] != v || len(line) > len(v)+1 || r.Commas != min(i, 1) {
			t.Errorf("value %d: got %q of [%d,%d) after %d commas, %v, want %q", i, line, r.Begin, r.End, r.Commas, err, v)
		}
	}
}

func TestDecode_Refuses(t *testing.T) {
	for stored, want := range map[string]string{
		"":              "unexpected EOF",
		`{"a":`:         "value at offset 0: unexpected EOF",
		"{} }":          "unexpected '}' at offset 3",
		"{} nul":        "value at offset 3: invalid character",
		`{"longer":1}`:  "line of 13 bytes exceeds the 6",
		"{}{}":          "unexpected EOF",
		"{}\x00":        "invalid character",
		"{}\"\x01\"{}1": "invalid character",
	} {
		if err := jsonvalue.Decode(nil, []byte(stored), make([]byte, 6+3*strings.Count(stored, "{}{}"))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", stored, err, want)
		}
	}
	long := io.MultiReader(strings.NewReader(`"`), io.LimitReader(repeated('x'), jsonvalue.MaxValue))
	if _, err := jsonvalue.NewReader(long, 0).Next(nil); err == nil || !strings.Contains(err.Error(), "exceeds") {
		t.Errorf("a long value: got %v", err)
	}
}

// repeated is an endless reader of one byte.
type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

// FuzzDecode decodes any bytes, and compares every value with json.Valid.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("[{},1]"))
	f.Add([]byte(`{"a":"\""}` + "\n{\n}"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		r := jsonvalue.NewReader(bytes.NewReader(stored), 0)
		var lines []byte
		for {
			line, err := r.Next(lines)
			if err != nil {
				if !errors.Is(err, io.EOF) && len(line) != len(lines) {
					t.Fatalf("an error with %d bytes of a line", len(line)-len(lines))
				}
				break
			}
			if !json.Valid(line[len(lines):]) || !json.Valid(stored[r.Begin:r.End]) || bytes.Count(line[len(lines):], []byte("\n")) != 1 {
				t.Fatalf("got line %q of %q", line[len(lines):], stored[r.Begin:r.End])
			}
			lines = line
		}
		got := make([]byte, len(lines))
		if err := jsonvalue.Decode(nil, stored, got); err != nil || !bytes.Equal(got, lines) {
			t.Fatalf("got %q, %v, want %q", got, err, lines)
		}
	})
}
