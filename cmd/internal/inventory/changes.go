package inventory

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/words"
)

// compareTime limits the time that a description takes to compare files with the index. It is
// enough for some 150,000 files of a local disk, and `info` still responds quickly.
const compareTime = 2 * time.Second

// Changes are the files of a directory that have changed since its index was made. A kind of change
// without a file is nil.
type Changes struct {
	New       *Files `json:"new,omitempty"`
	Gone      *Files `json:"gone,omitempty"`
	Rewritten *Files `json:"rewritten,omitempty"` // also if copied: size, time or inode differs from that of the indexed file
}

// Files are the files with one kind of change.
type Files struct {
	Files   int    `json:"files"`
	Example string `json:"example"` // first name in alphabetical order
}

// add counts a file.
func (f *Files) add(key string) *Files {
	if f == nil {
		return &Files{1, key}
	}
	return &Files{f.Files + 1, min(f.Example, key)}
}

// changesOf compares the files of a directory with its index. It returns nil if nothing changed. It also
// returns nil if shards or index are in a bucket, the directory is unreadable, or compareTime is too short.
func changesOf(ctx context.Context, o location.Dataset) *Changes {
	at := o.Loc.OfIndex()
	if o.Loc.Bucket != "" || at.Bucket != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compareTime)
	defer cancel()
	made, err := o.Index.Published(ctx, o.Home, at.Prefix)
	if err != nil {
		return nil
	}
	left, kinds := make(map[string]string, o.Index.Shards()), map[string]bool{}
	for i := range o.Index.Shards() {
		s := o.Index.Shard(i)
		left[s.Key], kinds[kindOf(s.Key)] = s.ETag, true
	}
	var c Changes
	err = o.Store.List(ctx, "", func(f objstore.Object) error {
		etag, known := left[f.Key]
		delete(left, f.Key)
		switch {
		case known && etag != f.ETag:
			c.Rewritten = c.Rewritten.add(f.Key)
		case !known && kinds[kindOf(f.Key)] && !format.Hidden(f.Key) && cameAfter(o.Loc.Dir, f.Key, made):
			c.New = c.New.add(f.Key)
		}
		return nil
	})
	for key := range left {
		c.Gone = c.Gone.add(key)
	}
	if err != nil || c == (Changes{}) {
		return nil
	}
	return &c
}

// kindOf returns the extension of a file's name. A new file whose extension no shard has, such as a
// note, is not a sample.
func kindOf(key string) string { return strings.ToLower(key[strings.LastIndexByte(key, '.')+1:]) }

// cameAfter reports whether a file was added to its directory after a time. It uses the change time
// of the inode, because a copy may keep the modification time. Files that are older existed when
// the index was made, so the index omits them on purpose.
func cameAfter(dir, key string, made time.Time) bool {
	var file unix.Stat_t
	if unix.Lstat(filepath.Join(dir, filepath.FromSlash(key)), &file) != nil {
		return false
	}
	return time.Unix(file.Ctim.Unix()).After(made)
}

// String describes the changes as text.
func (c Changes) String() string {
	var all []string
	for _, kind := range []struct {
		files *Files
		what  string
	}{{c.New, "new"}, {c.Gone, "gone"}, {c.Rewritten, "rewritten or copied"}} {
		if kind.files != nil {
			all = append(all, fmt.Sprintf("%d %s (such as %s)", kind.files.Files, kind.what, words.Printable(kind.files.Example)))
		}
	}
	return strings.Join(all, ", ")
}
