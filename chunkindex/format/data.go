package format

import (
	"path"
	"slices"
	"strings"
)

// Note says whether an object is one that people put beside their data to describe it, by its name. A format that was named takes
// every object for a shard but these.
func Note(key string) bool {
	base := strings.ToLower(path.Base(key))
	for _, begin := range []string{"readme", "license", "licence", "copying", "notice", "citation", "changelog", "md5sums", "sha256sums"} {
		if rest, ok := strings.CutPrefix(base, begin); ok && (rest == "" || rest == ".txt" || rest == ".pdf") {
			return true
		}
	}
	// What TensorFlow Datasets, Hugging Face, MosaicML Streaming and LitData write beside shards.
	known := []string{"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "features.json", "state.json", "index.json", "croissant.json"}
	return slices.Contains(known, base) || slices.Contains([]string{".md", ".rst", ".html", ".yaml", ".yml", ".cff"}, path.Ext(base))
}

// Marker says whether an object is one without a byte that says by its name alone that a writer has ended, as _SUCCESS does.
func Marker(o Object) bool { return o.Size == 0 && strings.HasPrefix(path.Base(o.Key), "_") }

// Data returns the objects that can hold samples: all but notes and markers.
func Data(objects []Object) []Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { return Note(o.Key) || Marker(o) })
}
