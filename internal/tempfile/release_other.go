//go:build !linux

package tempfile

import "os"

// Release does nothing: the space is given back when the file is closed.
func Release(*os.File, int64, int64) {}
