package gateway_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/google/go-cmp/cmp"
)

const formBatch = "/v1/datasets/photos/epochs/3/batches/"

// readForm decodes a body from the specification of its form, without code of Millrace.
func readForm(t *testing.T, form string, a answer) []sampleOf {
	t.Helper()
	switch form {
	case "tar":
		return readTar(t, a.body)
	case "multipart":
		return readMultipart(t, a)
	case "arrow":
		return readArrow(t, a.body)
	case "framed":
		return readFramed(t, a.body)
	case "mds":
		return readMDS(t, a.body)
	}
	t.Fatalf("form %s", form)
	return nil
}

// addPart adds a part to the last sample, or to a new one if it has another key.
func addPart(all []sampleOf, name string, content []byte) []sampleOf {
	base := strings.LastIndexByte(name, '/') + 1
	key, ext := name, ""
	if i := strings.IndexByte(name[base:], '.'); i > 0 {
		key, ext = name[:base+i], name[base+i+1:]
	}
	if n := len(all); n == 0 || all[n-1].key != key {
		all = append(all, sampleOf{key: key})
	}
	last := &all[len(all)-1]
	last.parts = append(last.parts, partOf{ext, content})
	return all
}

func readTar(t *testing.T, body []byte) (all []sampleOf) {
	t.Helper()
	if !bytes.HasSuffix(body, make([]byte, 1024)) || len(body)%512 != 0 {
		t.Errorf("got an archive of %d bytes without an end", len(body))
	}
	for r := tar.NewReader(bytes.NewReader(body)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = addPart(all, h.Name, content)
	}
}

func readMultipart(t *testing.T, a answer) (all []sampleOf) {
	t.Helper()
	_, params, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for r := multipart.NewReader(bytes.NewReader(a.body), params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Header.Get("Content-Length"), strconv.Itoa(len(content)); got != want {
			t.Errorf("got Content-Length %s of a part, want %s", got, want)
		}
		_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
		if err != nil {
			t.Fatal(err)
		}
		all = addPart(all, params["filename"], content)
	}
}

func readArrow(t *testing.T, body []byte) (all []sampleOf) {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if !r.Next() {
		t.Fatal(r.Err())
	}
	batch := r.RecordBatch()
	for row := range int(batch.NumRows()) {
		s := sampleOf{}
		for i := range int(batch.NumCols()) {
			name, value := batch.ColumnName(i), []byte(nil)
			switch c := batch.Column(i).(type) {
			case *array.String:
				value = []byte(c.Value(row))
			case *array.Binary:
				value = bytes.Clone(c.Value(row))
			case *array.Int64: // a class
				value = strconv.AppendInt(nil, c.Value(row), 10)
			case *array.FixedSizeList: // an array of numbers
				from, to := c.ValueOffsets(row)
				width := int64(c.ListValues().DataType().(arrow.FixedWidthDataType).Bytes())
				value = c.ListValues().Data().Buffers()[1].Bytes()[from*width : to*width]
			default:
				t.Fatalf("column %s: got a %v", name, c.DataType())
			}
			if i == 0 {
				s.key = string(value)
			} else if !batch.Column(i).IsNull(row) {
				s.parts = append(s.parts, partOf{name, value})
			}
		}
		all = append(all, s)
	}
	return all
}

// readFramed decodes the framed form according to docs/spec/framed.md.
func readFramed(t *testing.T, body []byte) (all []sampleOf) {
	t.Helper()
	le := binary.LittleEndian
	n, names, parts := int(le.Uint32(body[8:])), int(le.Uint32(body[12:])), int(le.Uint32(body[16:]))
	keyBytes, nameBytes, table, data := int(le.Uint32(body[20:])), int(le.Uint32(body[24:])), int(le.Uint32(body[28:])), le.Uint64(body[32:])
	if string(body[:4]) != "MLRF" || le.Uint16(body[4:]) != 1 || le.Uint16(body[6:]) != 3 || table%8 != 0 || uint64(len(body)) != uint64(table)+data {
		t.Fatalf("got a header %x of a body of %d bytes", body[:40], len(body))
	}
	at := 40
	numbers := func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = int(le.Uint32(body[at:]))
			at += 4
		}
		return out
	}
	lengths, keyLengths, counts := numbers(n), numbers(n), numbers(n)
	which, offsets, partLengths, nameLengths := numbers(parts), numbers(parts), numbers(parts), numbers(names)
	text := func(lengths []int) []string {
		out := make([]string, len(lengths))
		for i, n := range lengths {
			out[i] = string(body[at : at+n])
			at += n
		}
		return out
	}
	begin := at
	keys := text(keyLengths)
	if at-begin != keyBytes {
		t.Errorf("got %d bytes of keys, want %d", at-begin, keyBytes)
	}
	begin = at
	extensions := text(nameLengths)
	if at-begin != nameBytes || table-at > 7 || bytes.Count(body[at:table], []byte{0}) != table-at {
		t.Errorf("got %d bytes of names and padding %x, want %d and zeros", at-begin, body[at:table], nameBytes)
	}
	sample := body[table:]
	for i, n := range lengths {
		s := sampleOf{key: keys[i]}
		for range counts[i] {
			s.parts = append(s.parts, partOf{extensions[which[0]], sample[offsets[0] : offsets[0]+partLengths[0]]})
			which, offsets, partLengths = which[1:], offsets[1:], partLengths[1:]
		}
		all, sample = append(all, s), sample[n:]
	}
	return all
}

// readMDS reads a shard like MosaicML's reader, which takes the columns from the shard.
func readMDS(t *testing.T, body []byte) (all []sampleOf) {
	t.Helper()
	le := binary.LittleEndian
	n := int(le.Uint32(body))
	var columns mdsColumns
	columns.parse(t, body[4*(n+2):le.Uint32(body[4:])])
	for i := range n {
		sample := body[le.Uint32(body[4+4*i:]):le.Uint32(body[8+4*i:])]
		at, s := 4*len(columns.Names), sampleOf{}
		for j, name := range columns.Names {
			size := int(le.Uint32(sample[4*j:]))
			if name == "__key__" {
				s.key = string(sample[at : at+size])
			} else if size > 0 { // an empty part and a missing part look the same
				s.parts = append(s.parts, partOf{name, sample[at : at+size]})
			}
			at += size
		}
		if at != len(sample) {
			t.Errorf("sample %d: got columns of %d bytes, want %d", i, at, len(sample))
		}
		all = append(all, s)
	}
	return all
}

// mdsColumns is the description of columns in a shard.
type mdsColumns struct {
	Names     []string `json:"column_names"`
	Encodings []string `json:"column_encodings"`
}

func (c *mdsColumns) parse(t *testing.T, b []byte) {
	t.Helper()
	if err := json.Unmarshal(b, c); err != nil {
		t.Fatalf("columns %q: %v", b, err)
	}
}

// expected returns the samples with the given keys as a form represents them.
func (w storedDataset) expected(form string, keys, fields []string) (all []sampleOf) {
	known := w.byKey()
	for _, key := range keys {
		s := sampleOf{key: known[key].key}
		stored := slices.Clone(known[key].parts)
		if fields == nil && (form == "arrow" || form == "mds") {
			slices.SortFunc(stored, func(a, b partOf) int { return strings.Compare(a.ext, b.ext) })
		}
		if fields != nil {
			stored = nil
			for _, name := range fields {
				for i, p := range known[key].parts {
					picture := w.folders && i == 0 && name != "cls" && !slices.Contains(fields, p.ext)
					if p.ext == name || picture {
						stored = append(stored, partOf{name, p.content})
					}
				}
			}
			if form == "mds" {
				slices.SortFunc(stored, func(a, b partOf) int { return strings.Compare(a.ext, b.ext) })
			}
		}
		for _, p := range stored {
			if form != "mds" || len(p.content) > 0 {
				s.parts = append(s.parts, p)
			}
		}
		if len(s.parts) > 0 || form != "tar" && form != "multipart" { // an archive has no entry for a sample without members
			all = append(all, s)
		}
	}
	return all
}

// same compares contents. An empty content equals nil.
func same(t *testing.T, what string, got, want []sampleOf) {
	t.Helper()
	text := func(all []sampleOf) (out []string) {
		for _, s := range all {
			line := fmt.Sprintf("%q", s.key)
			for _, p := range s.parts {
				line += fmt.Sprintf(" %q=%x", p.ext, p.content)
			}
			out = append(out, line)
		}
		return out
	}
	if diff := cmp.Diff(text(want), text(got)); diff != "" {
		t.Errorf("%s: got other samples than were written (-want +got):\n%.2000s", what, diff)
	}
}

// TestEveryFormShowsTheSamples reads batches of every format in every form, like the libraries of
// these forms read them.
func TestEveryFormShowsTheSamples(t *testing.T) {
	fields := map[string][][]string{"tar": {{"cls"}, {"jpg", "cls"}, {"cls", "jpg"}, {"seg.json", "cls"}}, "jsonl": {{"json"}}, "records": {{"bin"}}, "files": {{"jpg"}, {"jpg", "cls"}, {"cls"}, {"cls", "JPEG"}, {"png", "jpg"}}}
	for name, w := range formatsWritten(t) {
		t.Run(name, func(t *testing.T) {
			r := serveObjects(t, w.objects, nil)
			for _, form := range []string{"tar", "multipart", "arrow", "framed", "mds"} {
				query := "?format=" + form
				if form == "framed" {
					query += "&table=keys,parts"
				}
				for m := range 3 {
					path := formBatch + strconv.Itoa(m) + query
					a := r.do("GET", path)
					if a.StatusCode != http.StatusOK {
						t.Fatalf("%s: got status %d: %s", path, a.StatusCode, a.body)
					}
					same(t, path, readForm(t, form, a), w.expected(form, r.keys(path), nil))
					for _, list := range fields[name] {
						var escaped []string
						for _, f := range list {
							escaped = append(escaped, strings.ReplaceAll(f, ",", "%2C"))
						}
						path := path + "&fields=" + strings.Join(escaped, ",")
						a := r.do("GET", path)
						if a.StatusCode != http.StatusOK {
							t.Fatalf("%s: got status %d: %s", path, a.StatusCode, a.body)
						}
						same(t, path, readForm(t, form, a), w.expected(form, r.keys(path), list))
					}
				}
			}
		})
	}
}
