package indexing

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/words"
)

// ReadFiles reads a list of the objects to index, one per line: keys below a location, or their full
// addresses, as libraries of table formats print them for a snapshot.
func ReadFiles(list string, l location.Location) (map[string]bool, error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		address := strings.TrimSpace(line)
		if address == "" {
			continue
		}
		key, below := keyOf(address, l)
		if !below {
			return nil, fmt.Errorf("%s:%d: %s is not below %s", list, i+1, words.Printable(address), l)
		}
		keys[key] = true
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s lists no objects", list)
	}
	return keys, nil
}

// keyOf returns the key of an address below a location.
func keyOf(address string, l location.Location) (key string, below bool) {
	scheme, rest, url := strings.Cut(address, "://")
	switch {
	case url && l.Bucket != "" && strings.HasPrefix(scheme, "s3"): // s3a and s3n are Hadoop's
		return strings.CutPrefix(rest, l.Bucket+"/"+l.Prefix)
	case url && scheme != "file":
		return "", false
	case url || filepath.IsAbs(address):
		return strings.CutPrefix(strings.TrimPrefix(address, "file://"), strings.TrimSuffix(filepath.ToSlash(l.Dir), "/")+"/")
	}
	return address, true
}
