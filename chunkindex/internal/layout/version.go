package layout

import (
	"errors"
	"fmt"
)

// ErrVersion reports a valid object in a format that this program does not support because a newer
// program wrote it. The object is not damaged and must not be replaced.
var ErrVersion = errors.New("written by a newer program")

// ErrOldVersion reports an index in an old, unsupported format version. An index run replaces it.
var ErrOldVersion = errors.New("written by an older program in a format that is no longer supported")

// Newer returns an ErrVersion with the name and value of the newer version.
func Newer(what string, version any) error {
	return fmt.Errorf("%s %v: %w", what, version, ErrVersion)
}

// Advise adds the recommended action to an ErrVersion.
func Advise(prefix, name string, err error) error {
	if !errors.Is(err, ErrVersion) {
		return err
	}
	return fmt.Errorf("%w: upgrade this program, or remove %s and index again", err, PointerObject(prefix, name))
}

// ErrCorrupt reports bytes that do not match their digests in the index.
var ErrCorrupt = errors.New("corrupt")
