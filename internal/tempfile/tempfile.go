// Package tempfile makes temporary files that nobody has to remove.
package tempfile

import (
	"fmt"
	"os"
)

// File makes a file without a name in dir, empty for the system's: its space is free again when it is closed, and whoever is
// killed leaves nothing behind.
func File(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "millrace-*")
	if err != nil {
		if dir == "" {
			err = fmt.Errorf("%w: set TMPDIR to a directory that takes temporary files", err)
		}
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
