package build

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/objstore"
)

// maxClassBytes limits the total length of the class names stored in an index. It is enough for
// 2,000 names of 15 bytes.
const maxClassBytes = 32 << 10

func isPicture(key string) bool { return chunkindex.IsPicture(strings.TrimPrefix(path.Ext(key), ".")) }

// classFolders counts the folders of a dataset in the layout of ImageFolder: loose images, each in
// one top-level folder. It returns 0 for other layouts.
func classFolders(d *format.Dataset) int {
	folders := map[string]bool{}
	for _, s := range d.Shards {
		folder, base, ok := strings.Cut(s.Key, "/")
		if !d.Loose || !ok || strings.Contains(base, "/") || !isPicture(base) {
			return 0
		}
		folders[folder] = true
	}
	return len(folders)
}

// classes returns the names of class folders to store in the index.
func (b *builder) classes() []string {
	if b.opt.Classes == nil {
		return classNames(b.found)
	}
	size := 0
	for _, name := range b.opt.Classes {
		size += len(name)
	}
	if size > maxClassBytes {
		return nil
	}
	return b.opt.Classes
}

// classNames returns the class names of a dataset of loose images, which are the names of their
// folders, in byte order. It returns nil if folders are not classes. All class folders must have
// the same parent folder, except that folders named after splits may intervene.
func classNames(d *format.Dataset) []string {
	names, above, size := map[string]bool{}, "", 0
	for i, s := range d.Shards {
		dir := path.Dir(s.Key)
		if !d.Loose || dir == "." || !isPicture(s.Key) {
			return nil
		}
		name, parent := path.Base(dir), withoutSplits(path.Dir(dir))
		if i > 0 && parent != above || wordOf(name) != "" {
			return nil
		}
		above = parent
		if !names[name] {
			names[name] = true
			size += len(name)
		}
	}
	if len(names) < 2 || size > maxClassBytes {
		return nil
	}
	return slices.Sorted(maps.Keys(names))
}

// withoutStrays removes .txt files from images in class folders, like torchvision's ImageFolder, if
// there are at most one per ten images. If a text has the name of an image, it may be a caption,
// and withoutStrays removes no object.
func (b *builder) withoutStrays(l *listing) *listing {
	texts, pictures := map[string]bool{}, &format.Dataset{Loose: true}
	for _, o := range format.Data(l.seen) {
		if stem, text := strings.CutSuffix(o.Key, ".txt"); text {
			texts[stem] = true
		} else {
			pictures.Shards = append(pictures.Shards, format.Shard{Object: o})
		}
	}
	captioned := func(s format.Shard) bool { return texts[strings.TrimSuffix(s.Key, path.Ext(s.Key))] }
	if b.opt.Format != "" || len(texts) == 0 || 10*len(texts) > len(pictures.Shards) || classNames(pictures) == nil || slices.ContainsFunc(pictures.Shards, captioned) {
		return l
	}
	b.report.Ignored = len(texts)
	return newListing(l.store, l.prefix, slices.DeleteFunc(slices.Clone(l.objects), func(o objstore.Object) bool {
		text := strings.HasSuffix(o.Key, ".txt") && !format.Note(o.Key)
		if text {
			b.report.IgnoredExample = strings.TrimPrefix(o.Key, b.prefix)
		}
		return text
	}))
}

// withoutSplits removes the path elements that name a split.
func withoutSplits(dir string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(dir, "/"), func(element string) bool { return wordOf(element) != "" }), "/")
}
