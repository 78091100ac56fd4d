package chunkindex

import "regexp"

// validName bounds the names of datasets and subsets to what a path carries without escapes.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ValidName reports whether a dataset may have this name.
func ValidName(name string) bool { return validName.MatchString(name) }
