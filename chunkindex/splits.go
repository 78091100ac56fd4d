package chunkindex

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Split is the shards of one part of a dataset, such as its training data, as far as their names tell.
type Split struct {
	Name    string `json:"name"`   // train, val or test
	Shards  int    `json:"shards"` // how many are named so
	Example string `json:"example"`
	Folder  string `json:"folder,omitempty"` // the example's folder, where that has the name
	Match   string `json:"match,omitempty"`  // else a pattern that the example's own name matches
}

// splitWord returns the split that a word of a name stands for, empty if it stands for none.
func splitWord(word string) string {
	switch strings.ToLower(word) {
	case "train", "training":
		return "train"
	case "val", "valid", "validation", "dev", "eval":
		return "val"
	case "test", "testing":
		return "test"
	}
	return ""
}

// splitOf returns the split that a shard's key tells of, by its folders first. The names of loose objects themselves say
// nothing: a picture of a train is no training data.
func splitOf(key string, loose bool) Split {
	dir, base := path.Split(key)
	at := 0
	for element := range strings.SplitSeq(dir, "/") {
		at += len(element) + 1
		if name, _ := wordOf(element); name != "" {
			return Split{Name: name, Example: key, Folder: key[:at-1]}
		}
	}
	if loose {
		return Split{}
	}
	name, end := wordOf(base)
	return Split{Name: name, Example: key, Match: base[:end] + "*"}
}

// wordOf returns the split that the first such word in a name tells of, and where the word ends. Words are runs of letters.
func wordOf(name string) (split string, end int) {
	from := 0
	for at, r := range name + " " {
		if unicode.IsLetter(r) {
			continue
		}
		if split = splitWord(name[from:at]); split != "" {
			return split, at
		}
		from = at + utf8.RuneLen(r)
	}
	return "", 0
}

// splitsOf returns the splits that the names of the shards tell of, if training data is among them and something else is too.
func splitsOf(d *format.Dataset) []Split {
	var all []Split
	for _, s := range d.Shards {
		split := splitOf(s.Key, d.Loose)
		if split.Name == "" {
			continue
		}
		i := slices.IndexFunc(all, func(x Split) bool { return x.Name == split.Name })
		if i < 0 {
			i = len(all)
			all = append(all, split)
		}
		all[i].Shards++
	}
	if len(all) < 2 || !slices.ContainsFunc(all, func(x Split) bool { return x.Name == "train" }) {
		return nil
	}
	slices.SortFunc(all, func(a, b Split) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// pictures are the suffixes that torchvision's ImageFolder takes.
func pictures() []string {
	return []string{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}
}

// classFolders counts the folders of a dataset that is loose pictures, each in one folder, as ImageFolder wants them.
func classFolders(d *format.Dataset) int {
	folders, suffixes := map[string]bool{}, pictures()
	for _, s := range d.Shards {
		folder, base, ok := strings.Cut(s.Key, "/")
		if !d.Loose || !ok || strings.Contains(base, "/") || !slices.Contains(suffixes, strings.ToLower(path.Ext(base))) {
			return 0
		}
		folders[folder] = true
	}
	return len(folders)
}
