package layout

import (
	"errors"
	"fmt"
)

// ErrVersion says that an object is whole, but follows rules that this program does not know: a newer one wrote
// it. It is never damage, so nothing replaces what it was found in.
var ErrVersion = errors.New("a newer program wrote it")

// ErrOldVersion says that an index is of a format version that is no longer read. An index run replaces it.
var ErrOldVersion = errors.New("an older program wrote it, in a format that is no longer read")

// Newer says which version of what was found.
func Newer(what string, version any) error {
	return fmt.Errorf("%s %v: %w", what, version, ErrVersion)
}

// Advise tells the user what to do about an object of a newer program.
func Advise(prefix, name string, err error) error {
	if !errors.Is(err, ErrVersion) {
		return err
	}
	return fmt.Errorf("%w: upgrade this program, or remove %s and index again", err, PointerObject(prefix, name))
}

// ErrCorrupt says that bytes do not match their digests in the index.
var ErrCorrupt = errors.New("corrupt")
