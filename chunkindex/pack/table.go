package pack

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// maxTable limits the length of a table, which is in memory as a whole.
const maxTable = 1 << 30

// rowExt is the extension of a member with the row of a sample.
const rowExt = "json"

// nameColumns are the columns that name a row's file, the first one that a row has.
func nameColumns() []string {
	return []string{"file_name", "image", "audio", "video", "file", "filename", "path"}
}

// table has the rows of a file that describes other files, such as the metadata.jsonl of Hugging
// Face's ImageFolder, LLaVA's or COCO's JSON.
type table struct {
	report TableReport
	dir    string // directory of the table below its source; names in the table may be relative to it
	rows   map[string][]json.RawMessage
	used   map[string]bool // names that files of the sources have
}

// TableReport counts the rows of a table.
type TableReport struct {
	Table     string `json:"table"`
	Rows      int    `json:"rows"`
	Joined    int    `json:"joined"`               // rows that are in samples
	Unnamed   int    `json:"unnamed"`              // rows that name no file
	Missing   int    `json:"missing"`              // rows that name a file which is not packed
	MissingOf string `json:"missing_of,omitempty"` // one such name
	Several   int    `json:"several"`              // names with more than one row; if there are any, members are arrays of rows
	SeveralOf string `json:"several_of,omitempty"` // one such name
}

// takeTables removes tables from the files and returns them: those that the user names, and files
// called metadata.jsonl or metadata.csv.
func (s *sources) takeTables(named []string) ([]*table, error) {
	var tables []*table
	read := func(name, dir string, in *os.File, err error) error {
		if err != nil {
			return err
		}
		defer in.Close() // opened for reading only
		t, err := readTable(name, dir, in)
		if err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		tables = append(tables, t)
		return nil
	}
	outside := map[string]fs.FileInfo{}
	for _, name := range named {
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		outside[name] = info
	}
	var files []file
	for _, f := range s.files {
		is := path.Base(f.path) == "metadata.jsonl" || path.Base(f.path) == "metadata.csv"
		for name, info := range outside {
			if os.SameFile(info, f.info) {
				is = true
				delete(outside, name)
			}
		}
		if !is {
			files = append(files, f)
			continue
		}
		in, err := f.root.Open(filepath.FromSlash(f.path))
		if err := read(f.where(), path.Dir(f.path), in, err); err != nil {
			return nil, err
		}
	}
	s.files = files
	for _, name := range slices.Sorted(maps.Keys(outside)) {
		in, err := os.Open(name)
		if err := read(name, ".", in, err); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// readTable reads a table. dir is its directory below a source.
func readTable(name, dir string, in io.Reader) (*table, error) {
	t := &table{report: TableReport{Table: name}, dir: dir, rows: map[string][]json.RawMessage{}, used: map[string]bool{}}
	text, err := io.ReadAll(io.LimitReader(in, maxTable+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxTable:
		return nil, fmt.Errorf("it exceeds %d bytes", maxTable)
	case !utf8.Valid(text):
		return nil, errors.New("it is not UTF-8")
	case path.Ext(name) == ".csv":
		err = t.readCSV(text)
	default:
		err = t.readJSON(text)
	}
	if err == nil && len(t.rows) == 0 {
		err = fmt.Errorf("no row has a column that names a file, which is one of %q", nameColumns())
	}
	return t, err
}

// add adds a row, which is a JSON object.
func (t *table) add(row json.RawMessage) error {
	var columns map[string]json.RawMessage
	if err := json.Unmarshal(row, &columns); err != nil {
		return fmt.Errorf("row %d: %w", t.report.Rows+1, err)
	}
	t.report.Rows++
	name := ""
	for _, column := range nameColumns() {
		if json.Unmarshal(columns[column], &name) == nil && name != "" {
			break
		}
	}
	if name == "" {
		t.report.Unnamed++
		return nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, row); err != nil {
		return err
	}
	name = path.Clean(filepath.ToSlash(name))
	if t.rows[name] = append(t.rows[name], text.Bytes()); len(t.rows[name]) == 2 {
		t.report.Several++
		t.report.SeveralOf = max(t.report.SeveralOf, name)
	}
	return nil
}

// readJSON reads objects: one per line, the elements of an array, or the images of COCO.
func (t *table) readJSON(text []byte) error {
	in := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	for {
		var value json.RawMessage
		if err := in.Decode(&value); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		rows := []json.RawMessage{value}
		if value[0] == '[' {
			if err := json.Unmarshal(value, &rows); err != nil {
				return err
			}
		} else if images, err := coco(value); err != nil {
			return err
		} else if images != nil {
			rows = images
		}
		for _, row := range rows {
			if err := t.add(row); err != nil {
				return err
			}
		}
	}
}

// coco returns the images of a COCO file, each with its annotations. It returns nil for another
// object.
func coco(value json.RawMessage) ([]json.RawMessage, error) {
	var file struct {
		Images      []map[string]json.RawMessage `json:"images"`
		Annotations []json.RawMessage            `json:"annotations"`
	}
	if json.Unmarshal(value, &file) != nil || file.Images == nil || file.Annotations == nil {
		return nil, nil
	}
	of := map[string][]json.RawMessage{}
	for _, a := range file.Annotations {
		var image struct {
			ID json.RawMessage `json:"image_id"`
		}
		if err := json.Unmarshal(a, &image); err != nil {
			return nil, fmt.Errorf("annotations: %w", err)
		}
		of[string(image.ID)] = append(of[string(image.ID)], a)
	}
	rows := make([]json.RawMessage, 0, len(file.Images))
	for _, image := range file.Images {
		annotations := of[string(image["id"])]
		if annotations == nil {
			annotations = []json.RawMessage{}
		}
		var err error
		if image["annotations"], err = json.Marshal(annotations); err != nil {
			return nil, err
		}
		row, err := json.Marshal(image)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// readCSV reads records below a header. A column is a number if all its values are JSON numbers.
func (t *table) readCSV(text []byte) error {
	records, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))).ReadAll()
	if err != nil || len(records) == 0 {
		return err
	}
	head, records := records[0], records[1:]
	number := make([]bool, len(head))
	for i := range head {
		number[i] = !slices.ContainsFunc(records, func(r []string) bool {
			var n json.Number
			return json.Unmarshal([]byte(r[i]), &n) != nil || r[i][0] == '"'
		})
	}
	for _, r := range records {
		row := []byte{'{'}
		for i, column := range head {
			key, _ := json.Marshal(column) // succeeds for every string
			value := []byte(r[i])
			if !number[i] {
				value, _ = json.Marshal(r[i])
			}
			row = append(append(append(row, key...), ':'), value...)
			row = append(row, ',')
		}
		row[len(row)-1] = '}'
		if err := t.add(row); err != nil {
			return err
		}
	}
	return nil
}

// join adds to each sample a member with the rows that name its files. It returns the number of
// samples without a row, and the key of one.
func join(samples []sample, tables []*table) (without int, example string, err error) {
	for i := range samples {
		s := &samples[i]
		text, from := "", ""
		for _, t := range tables {
			for row, name := t.of(s); row != ""; row, name = t.of(s) {
				if text != "" {
					return 0, "", fmt.Errorf("pack: %s and %q of table %s describe one sample, %q: remove one of the rows", from, name, t.report.Table, s.key)
				}
				text, from = row, fmt.Sprintf("%q of table %s", name, t.report.Table)
			}
		}
		if text == "" {
			without++
			example = cmp.Or(example, s.key)
			continue
		}
		if err := s.add(rowExt, text, from); err != nil {
			return 0, "", err
		}
	}
	for _, t := range tables {
		if err := t.count(); err != nil {
			return 0, "", err
		}
	}
	return without, example, nil
}

// of returns the rows that name a file of a sample, relative to the table's directory or to the
// source. "": there is no such row.
func (t *table) of(s *sample) (text, name string) {
	for _, m := range s.members {
		names := []string{m.path}
		if rel, err := filepath.Rel(filepath.FromSlash(t.dir), filepath.FromSlash(m.path)); err == nil && rel != names[0] {
			names = []string{filepath.ToSlash(rel), m.path}
		}
		for _, name := range names {
			rows := t.rows[name]
			if rows == nil || t.used[name] {
				continue
			}
			t.used[name] = true
			if t.report.Several == 0 {
				return string(rows[0]), name
			}
			all, _ := json.Marshal(rows) // succeeds for valid JSON
			return string(all), name
		}
	}
	return "", ""
}

// count completes the report. It returns an error if the table has no row for any sample.
func (t *table) count() error {
	r := &t.report
	for name, rows := range t.rows {
		if t.used[name] {
			r.Joined += len(rows)
			continue
		}
		r.Missing += len(rows)
		r.MissingOf = max(r.MissingOf, name)
	}
	if r.Joined == 0 {
		return fmt.Errorf("pack: table %s names no file of the sources, as in %q", r.Table, r.MissingOf)
	}
	return nil
}
