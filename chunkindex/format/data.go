package format

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// Notes are the names of objects that describe data, and are no data themselves. docs/spec/formats.md lists them.
type Notes struct {
	By       string   // what writes them, or what they are
	Words    []string // the whole name, alone or in .txt or .pdf
	Names    []string // the whole name
	Begins   []string // what a name begins with
	Suffixes []string // what a name ends in
}

// AllNotes are all that is passed over, in small letters: names are compared without regard to capitals.
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

// Note says whether an object is one that people put beside their data to describe it, by its name. A format that was named takes
// every object for a shard but these.
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

// notes are all of them as one. There may be millions of objects to ask about.
var notes = sync.OnceValue(func() (all Notes) {
	for _, n := range AllNotes() {
		all.Words, all.Names = append(all.Words, n.Words...), append(all.Names, n.Names...)
		all.Begins, all.Suffixes = append(all.Begins, n.Begins...), append(all.Suffixes, n.Suffixes...)
	}
	return all
})

// Marker says whether an object is one without a byte that says by its name alone that a writer has ended, as _SUCCESS does.
func Marker(o Object) bool { return o.Size == 0 && strings.HasPrefix(path.Base(o.Key), "_") }

// Data returns the objects that can hold samples: all but notes and markers.
func Data(objects []Object) []Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { return Note(o.Key) || Marker(o) })
}
