// Package tempfile makes temporary files that the system removes.
package tempfile

import (
	"fmt"
	"os"
)

// File makes an unnamed file in dir, or in the system's directory if dir is empty. Its space is
// freed when it is closed, even if the process is killed.
func File(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "millrace-*")
	if err != nil {
		if dir == "" {
			err = fmt.Errorf("%w: set TMPDIR to a directory for temporary files", err)
		}
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
