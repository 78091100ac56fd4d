//go:build unix

package client

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the user ID of a file's owner.
func ownerOf(is fs.FileInfo) (uid int, known bool) {
	stat, ok := is.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
