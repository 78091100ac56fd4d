package chunkindex

// ExtentCount returns how many extents chunk i has, without listing them.
func (x *Index) ExtentCount(i int) int {
	if x.extents.first == nil {
		return 1
	}
	return int(x.extents.first[i+1] - x.extents.first[i])
}
