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
	looks   = 16      // number of objects to inspect, largest first, because an object with many samples is larger than one that describes samples
	maxLook = 1 << 20 // bytes of an object to search for the end of its first value
)

// refuseCollections returns an error for a JSON object that holds many samples: an array, or
// several values.
func refuseCollections(ctx context.Context, l format.Listing, objects []format.Object) error {
	all := slices.DeleteFunc(slices.Clone(objects), func(o format.Object) bool { return format.Ext(o.Key) != ".json" })
	slices.SortStableFunc(all, func(a, b format.Object) int { return cmp.Compare(b.Size, a.Size) })
	return format.EachHead(ctx, l, all[:min(len(all), looks)], func(o format.Object, head []byte) (bool, error) {
		what, filter, err := collection(ctx, l, o, head)
		if err != nil || what == "" {
			return true, err
		}
		return false, &format.ChoiceError{
			Cause: fmt.Sprintf("object %s is %s, each of which is likely a sample, but JSON requires one sample per line", o.Key, what),
			Ways: []format.Way{
				{Command: toLines(all, filter), Effect: "writes JSON Lines, which are indexed instead of JSON"},
				{Flag: "format", Value: framing.Files, Effect: "takes each object as one sample"},
			},
		}
	})
}

// toLines returns a command that converts objects to JSON Lines. filter is the jq filter for a
// single object.
func toLines(objects []format.Object, filter string) string {
	const most = 8 // maximum number of names in a readable command
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

// collection describes an object that holds several values, and returns the jq filter that yields
// them.
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

// quoted returns a name in shell quotes.
func quoted(name string) string { return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'" }
