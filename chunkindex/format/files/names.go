package files

import (
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
)

// ofOneKind refuses objects of which some may be no samples of their own.
func ofOneKind(objects []format.Object) error {
	first := ""
	for i, o := range objects {
		kind := naming.Kind(o.Key)
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
	return fmt.Sprintf("object %s: its name is not one of an image, of sound, video or text, so it may hold any number of samples: exclude it with --match, or take every object as one sample with --format files", e.Key)
}

// whole marks a shard whose extension is part of its key, since another one differs by it alone.
const whole = "whole name"

// name returns the key of an object, and its extension.
func name(s format.Shard) (key, ext string) {
	key, ext = naming.File(s.Key)
	if s.Says == whole {
		key = naming.WholeFile(s.Key)
	}
	return key, ext
}

// distinguish marks the objects that differ by their extensions alone, such as a.jpg and a.png, and refuses those of one key all the same, such as
// a.b.jpg and a_b.jpg.
func distinguish(shards []format.Shard) error {
	first, marked := make(map[string]int, len(shards)), false
	for i, s := range shards {
		key, _ := naming.File(s.Key)
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
			return fmt.Errorf("objects %s and %s would have one key, %s, in which a dot is an underscore: rename one of them, or exclude it with --match '!%s'", other, s.Key, key, s.Key)
		}
		first[key] = i
	}
	return nil
}
