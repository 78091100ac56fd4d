package naming

import (
	"errors"
	"fmt"
	"strings"
)

// Group contains the members of one sample: consecutive members with the same key according to
// Member.
type Group struct {
	Key  string
	exts map[string]string // extensions of its members, keyed by the extension in lower case
}

// Add adds a member by name and extension. It returns an error if WebDataset's own reader would
// mishandle the member: that reader skips some names, ignores case, and reserves some extensions.
// The group retains ext.
func (g *Group) Add(name, ext string) error {
	if meta(name) {
		return errors.New("WebDataset's reader skips members with such a name: remove the member from the shard, or rename it")
	}
	lower := strings.ToLower(ext)
	switch before, twice := g.exts[lower]; {
	case twice && before == ext:
		return errors.New("two members of one sample have this name")
	case twice:
		return fmt.Errorf("two members in one sample whose extensions, %.100q and %.100q, differ only in case, which WebDataset's reader ignores", before, ext)
	case lower == "__key__", lower == "__url__", lower == "__local_path__", lower == "__bad__":
		return errors.New("extension is reserved by WebDataset's reader")
	}
	if g.exts == nil {
		g.exts = map[string]string{}
	}
	g.exts[lower] = ext
	return nil
}

// meta reports whether WebDataset's reader skips a name as metadata: __name__, or any name in a
// top-level directory with such a name.
func meta(name string) bool {
	first, _, nested := strings.Cut(name, "/")
	if !strings.HasPrefix(first, "__") {
		return false
	}
	return strings.HasSuffix(first, "__") && (len(first) >= 4 || !nested && len(first) >= 2)
}

// Member splits a member's name into key and extension at the first dot of its base name. A base
// name without a dot, or with only a leading dot, is a key with an empty extension.
func Member(name string) (key, ext string) {
	base := strings.LastIndexByte(name, '/') + 1
	i := strings.IndexByte(name[base:], '.')
	if i <= 0 {
		return name, ""
	}
	at := base + i
	return name[:at], name[at+1:]
}
