package chunkindex

import (
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/internal/objstore"
)

// maxClassBytes bounds the names of class folders that an index keeps, beside what else it says of the whole dataset: room for
// 2,000 names of 15 bytes.
const maxClassBytes = 32 << 10

// pictures are the suffixes that torchvision's ImageFolder takes.
func pictures() []string {
	return []string{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}
}

// classFolders counts the folders of a dataset that is loose pictures, each in one folder, as ImageFolder wants them.
func classFolders(d *format.Dataset) int {
	folders, suffixes := map[string]bool{}, pictures()
	for _, s := range d.Shards {
		folder, base, ok := strings.Cut(s.Key, "/")
		if !d.Loose || !ok || strings.Contains(base, "/") || !slices.Contains(suffixes, strings.ToLower(path.Ext(base))) {
			return 0
		}
		folders[folder] = true
	}
	return len(folders)
}

// classes returns the names of class folders that the index keeps.
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

// classNames returns the names of the folders of a dataset that is loose pictures, each in a folder that stands for its class, in byte
// order; nil where folders are no classes. They stand side by side, in one folder or in one for each split.
func classNames(d *format.Dataset) []string {
	names, suffixes, above, size := map[string]bool{}, pictures(), "", 0
	for i, s := range d.Shards {
		dir := path.Dir(s.Key)
		if !d.Loose || dir == "." || !slices.Contains(suffixes, strings.ToLower(path.Ext(s.Key))) {
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

// withoutStrays leaves out .txt files among pictures in class folders, as torchvision's ImageFolder does, up to one to ten pictures. A text that has the
// name of a picture may be its caption: then all stay.
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

// withoutSplits leaves out the elements of a path that tell of a split.
func withoutSplits(dir string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(dir, "/"), func(element string) bool { return wordOf(element) != "" }), "/")
}

// ClassPart is the part of a sample with the number of its class: the place of the class in the field's names of classes.
const ClassPart = "cls"

// IsPicture reports whether the extension of a part is a suffix of pictures in class folders.
func IsPicture(ext string) bool { return slices.Contains(pictures(), "."+strings.ToLower(ext)) }

// InClassFolders reports whether all samples are pictures in class folders. They store no class: ClassOf knows it.
func (x *Index) InClassFolders() bool {
	return x.meta.Classes != nil && x.meta.Format == framing.Files && uint64(len(x.shards)) == x.head.samples
}

// ClassOf returns the class of a sample in class folders. ok is false for a sample of any other dataset.
func (x *Index) ClassOf(sample uint64) (class int, ok bool) {
	if !x.InClassFolders() {
		return 0, false
	}
	return slices.BinarySearch(x.meta.Classes, path.Base(path.Dir(x.shards[sample].Key)))
}

// ClassRun is a row of samples of one class, which begins where the run before ends.
type ClassRun struct {
	End   uint64 // the number of the first sample behind it
	Class int
}

// maxClassRuns bounds the rows of one class: folders, of which each class may have one in each split.
const maxClassRuns = 1 << 16

// ClassRuns returns the classes of all samples of class folders; nil where they do not follow from the shards alone. Shards of one folder
// follow each other, so it looks at a few of each folder.
func (x *Index) ClassRuns() (runs []ClassRun) {
	if x.meta.Classes == nil || uint64(len(x.shards)) != x.head.samples {
		return nil
	}
	for i := 0; i < len(x.shards); {
		dir := path.Dir(x.shards[i].Key)
		class, known := slices.BinarySearch(x.meta.Classes, path.Base(dir))
		n := sort.Search(len(x.shards)-i, func(k int) bool { return !strings.HasPrefix(x.shards[i+k].Key, dir+"/") })
		if !known || n == 0 || len(runs) == maxClassRuns { // a path with an empty or a dot element has no prefix that is its folder
			return nil
		}
		i += n
		runs = append(runs, ClassRun{uint64(i), class})
	}
	return runs
}

// ClassesOf returns how many classes some runs can name.
func ClassesOf(runs []ClassRun) (n int) {
	for _, r := range runs {
		n = max(n, r.Class+1)
	}
	return n
}

// ClassSamples returns how many samples each class has; nil where ClassRuns is.
func (x *Index) ClassSamples() []uint64 {
	runs := x.ClassRuns()
	if runs == nil {
		return nil
	}
	counts, begin := make([]uint64, len(x.meta.Classes)), uint64(0)
	for _, r := range runs {
		counts[r.Class] += r.End - begin
		begin = r.End
	}
	return counts
}
