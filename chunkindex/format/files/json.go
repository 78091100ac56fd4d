package files

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

const (
	looks   = 16      // objects that are looked into, the largest ones: one with many samples is larger than one that describes them
	maxLook = 1 << 20 // bytes of an object that are looked at for the end of its first value
)

// refuseCollections refuses JSON of which one object holds many samples: the elements of an array, or values one after another.
func refuseCollections(ctx context.Context, l format.Listing, objects []format.Object) error {
	all := slices.DeleteFunc(slices.Clone(objects), func(o format.Object) bool { return format.Ext(o.Key) != ".json" })
	slices.SortStableFunc(all, func(a, b format.Object) int { return cmp.Compare(b.Size, a.Size) })
	return format.EachHead(ctx, l, all[:min(len(all), looks)], func(o format.Object, head []byte) (bool, error) {
		what, filter, err := collection(ctx, l, o, head)
		if err != nil || what == "" {
			return true, err
		}
		return false, &format.ChoiceError{
			Cause: fmt.Sprintf("object %s is %s, of which each is likely a sample, and JSON is read with a sample a line", o.Key, what),
			Ways: []format.Way{
				{Command: toLines(all, filter), Effect: "writes JSON Lines, which are indexed in place of JSON"},
				{Flag: "format", Value: framing.Files, Effect: "takes each object as one sample"},
			},
		}
	})
}

// toLines is the command that writes JSON Lines beside objects. filter is that of jq for the only one.
func toLines(objects []format.Object, filter string) string {
	const most = 8 // names in a command that people read
	var names []string
	for _, o := range objects[:min(len(objects), most)] {
		names = append(names, quoted(o.Key))
	}
	const each = `jq -c "arrays[], objects" "$f" > "${f%.json}.jsonl"`
	switch {
	case len(objects) == 1:
		return fmt.Sprintf("jq -c '%s' %s > %s", filter, names[0], quoted(strings.TrimSuffix(objects[0].Key, ".json")+".jsonl"))
	case len(objects) <= most:
		return "for f in " + strings.Join(names, " ") + "; do " + each + "; done"
	}
	return "find . -name '*.json' -not -path '*/.*' | while IFS= read -r f; do " + each + "; done"
}

// collection says what an object holds if that is several values, and the filter of jq that gives one after another.
func collection(ctx context.Context, l format.Listing, o format.Object, head []byte) (what, filter string, err error) {
	if len(head) == format.HeadSize {
		if head, err = l.First(ctx, o.Key, maxLook); err != nil {
			return "", "", err
		}
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(text, []byte("[")) {
		return "an array of JSON", ".[]", nil
	}
	var first json.RawMessage
	in := json.NewDecoder(bytes.NewReader(text))
	if in.Decode(&first) != nil || !bytes.HasPrefix(first, []byte("{")) {
		return "", "", nil
	}
	if rest := bytes.TrimSpace(text[in.InputOffset():]); !bytes.HasPrefix(rest, []byte("{")) {
		return "", "", nil
	}
	return "several JSON objects", ".", nil
}

// quoted is a name as a shell takes it.
func quoted(name string) string { return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'" }
