package hub

import (
	"encoding/json"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// Limits of a description of columns.
const (
	MaxFeatures = 4 << 20 // maximum bytes: enough for several hundred thousand class names
	maxDepth    = 32      // nested columns
)

// feature is a column in the notation of the datasets library.
type feature struct {
	Type    string          `json:"_type"`
	Names   []string        `json:"names"`
	Feature json.RawMessage `json:"feature"`
}

// Classes returns the class names of each ClassLabel column, or list of ClassLabels, by the
// column's dotted path. The value n has the name at position n, from 0. text is the metadata that
// the datasets library stores under the key "huggingface" in a Parquet file or in the schema of an
// Arrow file.
func Classes(text []byte) (map[string][]string, error) {
	var about struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	if len(text) > MaxFeatures {
		return nil, fmt.Errorf("metadata of Hugging Face datasets: %d bytes exceed the limit of %d", len(text), MaxFeatures)
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return nil, fmt.Errorf("metadata of Hugging Face datasets: %w", err)
	}
	classes := map[string][]string{}
	for name, column := range about.Info.Features {
		if err := classesOf(name, column, maxDepth, classes); err != nil {
			return nil, fmt.Errorf("metadata of Hugging Face datasets: column %.64q: %w", name, err)
		}
	}
	return classes, nil
}

// Label assigns class names from text to the integers of a schema. Text that Classes cannot parse
// belongs to another program and is ignored.
func Label(fields []*rows.Node, text string) {
	if text == "" {
		return
	}
	if classes, err := Classes([]byte(text)); err == nil {
		rows.SetClasses(fields, classes)
	}
}

// classesOf adds the class names of a column and its nested columns.
func classesOf(at string, text json.RawMessage, depth int, classes map[string][]string) error {
	if depth == 0 {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	var list []json.RawMessage // older notation of a list: the element type in brackets
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
	if kind, ok := columns["_type"]; !ok || kind[0] != '"' { // a struct, which may have a field named _type
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
