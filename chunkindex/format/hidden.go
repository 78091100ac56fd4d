package format

import "strings"

// Hidden says whether a name is one that programs leave beside data for their own use: an element of the path begins with a
// dot (.DS_Store, ._a.jpg, .git/config, .cache/...), a directory is the __MACOSX of macOS's zips, or it is one of the two
// files that Windows leaves. The name is an object's key relative to the dataset's prefix, a member's, or a file's. Other names
// that begin with an underscore are as often data.
func Hidden(name string) bool {
	for {
		element, rest, more := strings.Cut(name, "/")
		if strings.HasPrefix(element, ".") && element != "." && element != ".." || element == "__MACOSX" && more {
			return true
		}
		if !more {
			return strings.EqualFold(element, "Thumbs.db") || strings.EqualFold(element, "desktop.ini")
		}
		name = rest
	}
}
