package location

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

// hasState reports whether an index, or a part of one, lies in a directory.
func hasState(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".millrace"))
	return err == nil
}

// Apart returns a directory's location with its index in this user's cache, for an index that cannot lie beside the shards. ok is false where the address
// says where the index lies, or one lies beside the shards.
func (l Location) Apart() (at Location, ok bool) {
	cache, err := os.UserCacheDir()
	dir, fault := filepath.EvalSymlinks(l.Dir)
	if l.Dir == "" || l.Index != nil || hasState(l.Dir) || err != nil || fault != nil {
		return l, false
	}
	sum := sha256.Sum256([]byte(dir))
	l.Index, l.cached = &Location{Dir: filepath.Join(cache, "millrace", "indexes", hex.EncodeToString(sum[:16]))}, true
	return l, true
}

// PutBeside has the index lie beside the shards, unless the address says where it lies.
func (l *Location) PutBeside() {
	if l.cached {
		l.Index, l.cached = nil, false
	}
}
