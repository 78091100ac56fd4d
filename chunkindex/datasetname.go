package chunkindex

import "regexp"

// validName restricts the names of datasets and subsets to characters that a URL path carries
// without escapes.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ValidName reports whether name is valid for a dataset or subset.
func ValidName(name string) bool { return validName.MatchString(name) }
