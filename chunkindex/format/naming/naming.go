// Package naming says what formats have in common that take names of files and members for keys: which of them are one sample, and what
// kind of data a file is by its name.
package naming

import (
	"strings"
	"sync"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// kinds says by suffix of which kind objects are that are one sample each to everybody.
var kinds = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for kind, suffixes := range map[string][]string{
		"image": {"jpg", "jpeg", "jpe", "jfif", "png", "gif", "bmp", "tif", "tiff", "webp", "ppm", "pgm", "pbm", "pnm", "heic", "heif", "avif", "jp2", "jxl", "exr", "hdr", "dng", "svg", "dcm", "nii", "nii.gz"},
		"sound": {"wav", "flac", "mp3", "ogg", "opus", "m4a", "aac", "aif", "aiff", "wma"},
		"video": {"mp4", "m4v", "mkv", "avi", "mov", "webm", "mpg", "mpeg"},
		"text":  {"txt", "json", "xml", "tex", "srt", "vtt"},
	} {
		for _, s := range suffixes {
			all[s] = kind
		}
	}
	return all
})

// Text is the kind of objects that as often describe data as they are data.
const Text = "text"

// Kind says of which kind an object is that is one sample to everybody, by its name: image, sound, video or text. It is empty for others.
func Kind(key string) string {
	_, suffix := File(key)
	return kinds()[strings.ToLower(suffix)]
}

// Alone says whether an object's name is one of an image, of sound, video or plain text, which is a sample of its own.
func Alone(key string) bool {
	kind := Kind(key)
	return kind != "" && !(kind == Text && format.Ext(key) == ".json")
}

// WholeFile returns the key of a sample that is one file, where another file's name differs by the extension alone.
func WholeFile(name string) string {
	key, ext := File(name)
	if ext == "" {
		return key
	}
	return key + "_" + flat(ext)
}

// File returns the key and the extension of a sample that is one file, by the file's name: "cat/frame_0001" and "png" of
// "cat/frame.0001.png". It cuts the name at the last dot of its base, so that the extension names the kind of object; one of compression
// counts with the one before it, as in "a.nii.gz". The key is what stands before, with its earlier dots made underscores as by
// "millrace pack --sample-key path": a reader that groups members of a tar by their keys does not put two objects together.
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
	if base < at && strings.IndexByte(name[base+1:at], '.') < 0 { // as most are: no copy
		return name[:at], name[at+1:]
	}
	return name[:base] + flat(name[base:at]), name[at+1:]
}

// flat makes underscores of the dots of a base name but one that it begins with.
func flat(base string) string {
	if base == "" {
		return base
	}
	return base[:1] + strings.ReplaceAll(base[1:], ".", "_")
}
