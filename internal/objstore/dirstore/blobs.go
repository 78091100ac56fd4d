package dirstore

import (
	"os"
	"path/filepath"
	"strings"
)

// blobs is the directory with the contents of a repository in Hugging Face's cache,
// datasets--NAME/blobs. A snapshot, datasets--NAME/snapshots/REVISION, has a link to a blob for
// each file. These links are followed without an option, because the same download has written the
// blobs. All other links that lead out of the directory are not followed.
type blobs struct {
	root *os.Root
	dir  string // absolute path of blobs
	from string // absolute path of the store's directory
}

// blobsOf returns the blobs of the snapshot that contains a directory, or nil.
func blobsOf(root string) *blobs {
	from, err := filepath.Abs(root)
	if err != nil {
		return nil
	}
	for at := from; ; at = filepath.Dir(at) {
		above := filepath.Dir(at)
		if above == at {
			return nil
		}
		if filepath.Base(above) != "snapshots" {
			continue
		}
		repository := filepath.Dir(above)
		dir := filepath.Join(repository, "blobs")
		if !strings.HasPrefix(filepath.Base(repository), "datasets--") {
			return nil
		}
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return nil
		}
		r, err := os.OpenRoot(dir)
		if err != nil {
			return nil
		}
		return &blobs{r, dir, from}
	}
}

// blob returns the name of the blob that a link leads to, if err reports that the link leaves the
// directory. It returns "" for anything but a link to a blob.
func (d *directory) blob(name string, err error) string {
	if err == nil || d.blobs == nil || name == "" || !strings.Contains(err.Error(), "path escapes") {
		return ""
	}
	target, err := d.Readlink(name)
	if err != nil {
		return ""
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(d.blobs.from, filepath.Dir(filepath.FromSlash(name)), target)
	}
	if filepath.Dir(target) != d.blobs.dir {
		return ""
	}
	return filepath.Base(target)
}
