package format

import "strings"

// Outside reports whether extracting a file with this name would write outside the target
// directory: the name is absolute or has an element "..".
func Outside(name string) bool {
	if strings.HasPrefix(name, "/") {
		return true
	}
	if !strings.Contains(name, "..") { // common case
		return false
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return true
		}
	}
	return false
}
