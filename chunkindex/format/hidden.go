package format

import "strings"

// Hidden reports whether a name belongs to a file that programs create next to data for their own
// use. That is a path element with a leading dot (.DS_Store, ._a.jpg, .git/config, .cache/...), the
// directory __MACOSX in macOS zips, or one of two Windows files. name is a relative object key, a
// member name or a file name. Other names with a leading underscore may be data.
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
