package files

import (
	"fmt"
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
	_, suffix := split(key)
	return kinds()[strings.ToLower(suffix)]
}

// Alone says whether an object's name is one of an image, of sound, video or plain text, which is a sample of its own.
func Alone(key string) bool {
	kind := Kind(key)
	return kind != "" && !(kind == Text && format.Ext(key) == ".json")
}

// ofOneKind refuses objects of which some may be no samples of their own.
func ofOneKind(objects []format.Object) error {
	all, first := kinds(), ""
	for i, o := range objects {
		_, suffix := split(o.Key)
		kind := all[strings.ToLower(suffix)]
		if i == 0 {
			first = kind
		}
		switch {
		case kind == "":
			return &UnknownError{o.Key}
		case kind != first:
			return fmt.Errorf("objects %s (%s) and %s (%s) may not be a sample each: take those of one kind with --match, make samples of both with millrace pack, or take each as a sample with --format files",
				objects[0].Key, first, o.Key, kind)
		}
	}
	return nil
}

// UnknownError is the fault of an object that may hold any number of samples.
type UnknownError struct{ Key string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("object %s: its name is not one of an image, of sound, video or text, so it may hold any number of samples: leave it out with --match, or take every object as one sample with --format files", e.Key)
}

// Split returns the key and the extension of a sample that is one file, by the file's name: "cat/frame_0001" and "png" of
// "cat/frame.0001.png".
func Split(name string) (key, ext string) { return split(name) }

// Whole returns the key of a sample that is one file, where another file's name differs by the extension alone.
func Whole(name string) string {
	key, ext := split(name)
	if ext == "" {
		return key
	}
	return key + "_" + flat(ext)
}

// split cuts a name at the last dot of its base, so that the extension is what says of which kind the object is; one of compression
// counts with the one before it, as in "a.nii.gz". The key is what stands before, with its earlier dots made underscores as by
// "millrace pack --key path": a reader that groups members of a tar by their keys does not put two objects together.
func split(name string) (key, ext string) {
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

// whole marks a shard whose extension is part of its key, since another one differs by it alone.
const whole = "whole name"

// name returns the key of an object, and its extension.
func name(s format.Shard) (key, ext string) {
	key, ext = split(s.Key)
	if s.Says == whole {
		key = Whole(s.Key)
	}
	return key, ext
}

// distinguish marks the objects that differ by their extensions alone, such as a.jpg and a.png, and refuses those of one key all the same, such as
// a.b.jpg and a_b.jpg.
func distinguish(shards []format.Shard) error {
	first, marked := make(map[string]int, len(shards)), false
	for i, s := range shards {
		key, _ := split(s.Key)
		if j, twice := first[key]; twice {
			shards[i].Says, shards[j].Says = whole, whole
			marked = true
		} else {
			first[key] = i
		}
	}
	if !marked {
		return nil
	}
	clear(first)
	for i, s := range shards {
		key, _ := name(s)
		if j, twice := first[key]; twice {
			other := shards[j].Key
			return fmt.Errorf("objects %s and %s would have one key, %s, in which a dot is an underscore: rename one of them, or leave it out with --match '!%s'", other, s.Key, key, s.Key)
		}
		first[key] = i
	}
	return nil
}
