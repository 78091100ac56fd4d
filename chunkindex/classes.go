package chunkindex

import (
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/framing"
)

// ClassPart is the name of the part that holds a sample's class, a position in the field's list of
// class names.
const ClassPart = "cls"

// IsPicture reports whether a part's extension is an image suffix that class folders use.
func IsPicture(ext string) bool { return slices.Contains(pictures(), "."+strings.ToLower(ext)) }

// InClassFolders reports whether all samples are images in class folders. The index stores no class
// for them; ClassOf derives it.
func (x *Index) InClassFolders() bool {
	return x.meta.Classes != nil && x.meta.Format == framing.Files && uint64(len(x.shards)) == x.totals.Samples
}

// ClassOf returns the class of a sample in class folders, from its folder's name. ok is false for
// other datasets.
func (x *Index) ClassOf(sample uint64) (class int, ok bool) {
	if !x.InClassFolders() {
		return 0, false
	}
	return slices.BinarySearch(x.meta.Classes, path.Base(path.Dir(x.shards[sample].Key)))
}

// ClassRun is a run of consecutive samples of one class. It begins where the previous run ends.
type ClassRun struct {
	End   uint64 // number of the first sample after the run
	Class int
}

// maxClassRuns limits the number of runs. Each class may have one folder per split.
const maxClassRuns = 1 << 16

// ClassRuns returns the classes of all samples in class folders, or nil if shard keys alone do not
// determine them. Shards of one folder are adjacent, so a binary search finds the end of each
// folder.
func (x *Index) ClassRuns() (runs []ClassRun) {
	if x.meta.Classes == nil || uint64(len(x.shards)) != x.totals.Samples {
		return nil
	}
	for i := 0; i < len(x.shards); {
		dir := path.Dir(x.shards[i].Key)
		class, known := slices.BinarySearch(x.meta.Classes, path.Base(dir))
		n := sort.Search(len(x.shards)-i, func(k int) bool { return !strings.HasPrefix(x.shards[i+k].Key, dir+"/") })
		if !known || n == 0 || len(runs) == maxClassRuns { // a path with an empty or dot element is not prefixed by its folder
			return nil
		}
		i += n
		runs = append(runs, ClassRun{uint64(i), class})
	}
	return runs
}

// ClassesOf returns the number of classes in the runs: the highest class number plus one.
func ClassesOf(runs []ClassRun) (n int) {
	for _, r := range runs {
		n = max(n, r.Class+1)
	}
	return n
}

// ClassSamples returns the number of samples per class, or nil if ClassRuns returns nil.
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

// pictures lists the suffixes that torchvision's ImageFolder accepts.
func pictures() []string {
	return []string{".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"}
}
