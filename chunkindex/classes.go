package chunkindex

import (
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/framing"
)

// ClassPart is the part of a sample with the number of its class: the place of the class in the field's names of classes.
const ClassPart = "cls"

// IsPicture reports whether the extension of a part is a suffix of pictures in class folders.
func IsPicture(ext string) bool { return slices.Contains(pictures(), "."+strings.ToLower(ext)) }

// InClassFolders reports whether all samples are pictures in class folders. They store no class: ClassOf knows it.
func (x *Index) InClassFolders() bool {
	return x.meta.Classes != nil && x.meta.Format == framing.Files && uint64(len(x.shards)) == x.head.Samples
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
	if x.meta.Classes == nil || uint64(len(x.shards)) != x.head.Samples {
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

// pictures are the suffixes that torchvision's ImageFolder takes.
func pictures() []string {
	return []string{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}
}
