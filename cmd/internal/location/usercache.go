package location

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
)

// hasState reports whether a directory contains an index, or a part of one.
func hasState(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".millrace"))
	return err == nil
}

// Apart returns a location for a directory that is not writable: its index is in this user's cache.
// ok is false if the address has a location for the index, or if the directory contains an index.
// An error means that this user has no cache directory.
func (l Location) Apart() (at Location, ok bool, err error) {
	dir, fault := filepath.EvalSymlinks(l.Dir)
	if l.Dir == "" || l.Index != nil || hasState(l.Dir) || fault != nil {
		return l, false, nil
	}
	cache, err := CacheDir()
	if err != nil {
		return l, false, err
	}
	sum := sha256.Sum256([]byte(dir))
	l.Index, l.cached = &Location{Dir: filepath.Join(cache, "millrace", "indexes", hex.EncodeToString(sum[:16]))}, true
	return l, true, nil
}

// CacheDir returns this user's cache directory. Without HOME, for example in containers, it uses
// the home directory from the user database.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err == nil || os.Getenv("XDG_CACHE_HOME") != "" {
		return dir, err
	}
	u, fault := user.Current()
	if fault != nil || !filepath.IsAbs(u.HomeDir) {
		return "", fmt.Errorf("no home directory: %w", err)
	}
	return filepath.Join(u.HomeDir, ".cache"), nil
}

// PutBeside moves the index from the user's cache to the shards, unless the address has a location
// for the index.
func (l *Location) PutBeside() {
	if l.cached {
		l.Index, l.cached = nil, false
	}
}
