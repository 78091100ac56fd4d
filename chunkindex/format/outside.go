package format

import "strings"

// Outside says whether a name leads out of the directory that it is extracted into: it is absolute, or has an element "..".
func Outside(name string) bool {
	if strings.HasPrefix(name, "/") {
		return true
	}
	if !strings.Contains(name, "..") { // as most do not
		return false
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return true
		}
	}
	return false
}
