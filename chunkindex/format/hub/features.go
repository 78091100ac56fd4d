package hub

import (
	"encoding/json"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Limits of a description of columns.
const (
	MaxFeatures = 4 << 20 // bytes: the names of some hundred thousand classes
	maxDepth    = 32      // of columns in columns
)

// feature is a column as the library datasets describes it.
type feature struct {
	Type    string          `json:"_type"`
	Names   []string        `json:"names"`
	Feature json.RawMessage `json:"feature"`
}

// Classes returns the names of the classes of each column that is a ClassLabel, or a list of them, by the column's path with dots: the
// number n stands for the nth name, from 0. The text is what files of the library datasets have under the key "huggingface": in the metadata
// of a Parquet file, or of the schema of an Arrow file.
func Classes(text []byte) (map[string][]string, error) {
	var about struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	if len(text) > MaxFeatures {
		return nil, fmt.Errorf("metadata of datasets: %d bytes, want %d at most", len(text), MaxFeatures)
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return nil, fmt.Errorf("metadata of datasets: %w", err)
	}
	classes := map[string][]string{}
	for name, column := range about.Info.Features {
		if err := classesOf(name, column, maxDepth, classes); err != nil {
			return nil, fmt.Errorf("metadata of datasets: column %.64q: %w", name, err)
		}
	}
	return classes, nil
}

// Label gives the integers of a schema the names that the text has for their values, if Classes can read it. A text that it cannot read is
// a note of another program's, and no reason to refuse the file.
func Label(fields []*rows.Node, text string) {
	if text == "" {
		return
	}
	if classes, err := Classes([]byte(text)); err == nil {
		rows.SetClasses(fields, classes)
	}
}

// classesOf adds the classes of a column and of those in it.
func classesOf(at string, text json.RawMessage, depth int, classes map[string][]string) error {
	if depth == 0 {
		return fmt.Errorf("columns in columns, more than %d deep", maxDepth)
	}
	var list []json.RawMessage // a list as it was written once: with its element in brackets
	if json.Unmarshal(text, &list) == nil {
		if len(list) != 1 {
			return nil
		}
		return classesOf(at, list[0], depth-1, classes)
	}
	var columns map[string]json.RawMessage
	if err := json.Unmarshal(text, &columns); err != nil {
		return err
	}
	if kind, ok := columns["_type"]; !ok || kind[0] != '"' { // a struct, which may have a column of this name
		for name, column := range columns {
			if err := classesOf(at+"."+name, column, depth-1, classes); err != nil {
				return err
			}
		}
		return nil
	}
	var f feature
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	switch {
	case f.Type == "ClassLabel" && len(f.Names) > 0:
		classes[at] = f.Names
	case len(f.Feature) > 0:
		return classesOf(at, f.Feature, depth-1, classes)
	}
	return nil
}
