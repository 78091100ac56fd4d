package format

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// Notes lists object names that mark documentation rather than samples. docs/spec/formats.md has the table.
type Notes struct {
	By       string   // program that writes the objects, or their purpose
	Words    []string // whole names, also with .txt or .pdf
	Names    []string // whole names
	Begins   []string // prefixes of names
	Suffixes []string // suffixes of names
}

// AllNotes returns the names of all ignored objects in lower case. Names are compared without
// regard to case.
func AllNotes() []Notes {
	return []Notes{
		{By: "people", Words: []string{"readme", "license", "licence", "copying", "notice", "citation", "changelog", "md5sums", "sha256sums"}},
		{By: "documents and settings", Suffixes: []string{".md", ".rst", ".html", ".yaml", ".yml", ".cff", ".bib"}},
		{By: "programs that load the data", Suffixes: []string{".py", ".ipynb"}},
		{By: "checksums", Suffixes: []string{".md5", ".sha1", ".sha256", ".sha512", ".crc"}},
		{By: "Hugging Face's datasets", Names: []string{"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}},
		{By: "TensorFlow Datasets, Croissant, Kaggle", Names: []string{"features.json", "metadata.json", "croissant.json", "dataset-metadata.json"}},
		{By: "MosaicML Streaming, LitData", Names: []string{"index.json"}},
		{By: "Spark, Dask, Databricks", Names: []string{"_success", "_metadata", "_common_metadata"}, Begins: []string{"_started_", "_committed_"}},
	}
}

// Note reports whether an object's name marks documentation. If the user names the format, the
// format claims all other objects.
func Note(key string) bool {
	base := strings.ToLower(path.Base(key))
	ext := path.Ext(base)
	word := base
	if ext == ".txt" || ext == ".pdf" {
		word = strings.TrimSuffix(base, ext)
	}
	n := notes()
	if slices.Contains(n.Suffixes, ext) || slices.Contains(n.Names, base) || slices.Contains(n.Words, word) {
		return true
	}
	return slices.ContainsFunc(n.Begins, func(begin string) bool { return strings.HasPrefix(base, begin) })
}

// notes is the union of AllNotes. It is computed once, because there may be millions of objects to
// check.
var notes = sync.OnceValue(func() (all Notes) {
	for _, n := range AllNotes() {
		all.Words, all.Names = append(all.Words, n.Words...), append(all.Names, n.Names...)
		all.Begins, all.Suffixes = append(all.Begins, n.Begins...), append(all.Suffixes, n.Suffixes...)
	}
	return all
})

// Marker reports whether an object is an empty completion marker such as _SUCCESS.
func Marker(o Object) bool { return o.Size == 0 && strings.HasPrefix(path.Base(o.Key), "_") }

// Data returns the objects that can hold samples: all except notes and markers.
func Data(objects []Object) []Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { return Note(o.Key) || Marker(o) })
}
