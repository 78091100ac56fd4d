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

// compareTime limits how long a description may take longer because files are compared with the index. That is enough for some 150,000 files
// of a local disk, and `info` stays a command that answers at once.
const compareTime = 2 * time.Second

// Changes are the files of a directory that are not as they were when its index was made. Kinds without a file are nil.
type Changes struct {
	New       *Files `json:"new,omitempty"`
	Gone      *Files `json:"gone,omitempty"`
	Rewritten *Files `json:"rewritten,omitempty"` // or copied: another size, time or inode than the one indexed
}

// Files are the files that changed in one way.
type Files struct {
	Files   int    `json:"files"`
	Example string `json:"example"` // the first one by name
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

// kindOf is the end of a file's name. A new file of another kind than the shards is a note, and no sample.
func kindOf(key string) string { return strings.ToLower(key[strings.LastIndexByte(key, '.')+1:]) }

// cameAfter says whether a file came into its directory after a time. Its inode's time of change tells: a copy may keep the time of its
// content. Files that are older were there when the index was made, and the index left them out.
func cameAfter(dir, key string, made time.Time) bool {
	var file unix.Stat_t
	if unix.Lstat(filepath.Join(dir, filepath.FromSlash(key)), &file) != nil {
		return false
	}
	return time.Unix(file.Ctim.Unix()).After(made)
}

// String lists the changes in words.
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
