// Package naming implements rules shared by formats that derive keys from names of files and
// members. The rules decide which files or members form a sample, and which kind of data a name
// indicates.
package naming

import (
	"strings"
	"sync"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// kinds maps a suffix to the kind of its objects, for kinds in which each object is generally one
// sample.
var kinds = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for kind, suffixes := range map[string][]string{
		"image": {"jpg", "jpeg", "jpe", "jfif", "png", "gif", "bmp", "tif", "tiff", "webp", "ppm", "pgm", "pbm", "pnm", "heic", "heif", "avif", "jp2", "jxl", "exr", "hdr", "dng", "svg", "dcm", "nii", "nii.gz"},
		"sound": {"wav", "flac", "mp3", "ogg", "opus", "m4a", "aac", "aif", "aiff", "wma"},
		"video": {"mp4", "m4v", "mkv", "avi", "mov", "webm", "mpg", "mpeg"},
		"array": {"npz", "safetensors"},
		"text":  {"txt", "json", "xml", "tex", "srt", "vtt"},
	} {
		for _, s := range suffixes {
			all[s] = kind
		}
	}
	return all
})

// Text is the kind of objects that either are data or describe data.
const Text = "text"

// Kind returns the kind of an object that is generally one sample, by its name: image, sound, video,
// array or text. It returns "" for all other names.
func Kind(key string) string {
	_, suffix := File(key)
	return kinds()[strings.ToLower(suffix)]
}

// Alone reports whether an object's name is that of an image, audio, video, array or plain text
// file, which is a sample of its own.
func Alone(key string) bool {
	kind := Kind(key)
	return kind != "" && !(kind == Text && format.Ext(key) == ".json")
}

// WholeFile returns the key of a single-file sample if another file has the same name except for
// the extension.
func WholeFile(name string) string {
	key, ext := File(name)
	if ext == "" {
		return key
	}
	return key + "_" + flat(ext)
}

// File returns the key and the extension of a single-file sample, by the file's name:
// "cat/frame_0001" and "png" for "cat/frame.0001.png". It splits the base name at the last dot, or
// at the dot before a compression suffix, as in "a.nii.gz". It replaces earlier dots by
// underscores, like "millrace pack --sample-key path", so that readers that group tar members by key do
// not combine two objects.
func File(name string) (key, ext string) {
	base := strings.LastIndexByte(name, '/') + 1
	dot := func(end int) int {
		if i := strings.LastIndexByte(name[base:end], '.'); i > 0 {
			return base + i
		}
		return end
	}
	at := dot(len(name))
	if suffix := strings.ToLower(name[at:]); suffix == ".gz" || suffix == ".zst" || suffix == ".zstd" {
		at = dot(at)
	}
	if at == len(name) {
		return name, ""
	}
	if base < at && strings.IndexByte(name[base+1:at], '.') < 0 { // common case, which needs no copy
		return name[:at], name[at+1:]
	}
	return name[:base] + flat(name[base:at]), name[at+1:]
}

// flat replaces the dots of a base name by underscores, except for a leading dot.
func flat(base string) string {
	if base == "" {
		return base
	}
	return base[:1] + strings.ReplaceAll(base[1:], ".", "_")
}
