package naming

import (
	"errors"
	"fmt"
	"strings"
)

// Group holds the members of one sample: consecutive members for which Member returns the same key.
type Group struct {
	Key  string
	exts map[string]string // of its members, by their lower case
}

// Add adds a member by its name and its extension, if WebDataset's own reader could take it: that one passes over some names, tells no
// capitals from others, and keeps things of its own beside the members. The extension is kept.
func (g *Group) Add(name, ext string) error {
	if meta(name) {
		return errors.New("WebDataset's reader passes over members of such names: leave it out of the shard, or name it otherwise")
	}
	lower := strings.ToLower(ext)
	switch before, twice := g.exts[lower]; {
	case twice && before == ext:
		return errors.New("two members of this name in one sample")
	case twice:
		return fmt.Errorf("two members in one sample whose extensions, %.100q and %.100q, differ in capitals alone, which WebDataset's reader does not tell apart", before, ext)
	case lower == "__key__", lower == "__url__", lower == "__local_path__", lower == "__bad__":
		return errors.New("extension is one that WebDataset's reader keeps for itself")
	}
	if g.exts == nil {
		g.exts = map[string]string{}
	}
	g.exts[lower] = ext
	return nil
}

// meta says whether WebDataset's reader passes over a name, as one of data about the data: __name__, or anything in a directory of such a
// name at the top.
func meta(name string) bool {
	first, _, nested := strings.Cut(name, "/")
	if !strings.HasPrefix(first, "__") {
		return false
	}
	return strings.HasSuffix(first, "__") && (len(first) >= 4 || !nested && len(first) >= 2)
}

// Member cuts a member's name where its key ends: at the first dot of its base name. A base
// name without a dot, or with the dot first, is a key with an empty extension.
func Member(name string) (key, ext string) {
	base := strings.LastIndexByte(name, '/') + 1
	i := strings.IndexByte(name[base:], '.')
	if i <= 0 {
		return name, ""
	}
	at := base + i
	return name[:at], name[at+1:]
}
