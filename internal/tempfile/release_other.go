//go:build !linux

package tempfile

import "os"

// Release does nothing. Closing the file frees the space.
func Release(*os.File, int64, int64) {}
