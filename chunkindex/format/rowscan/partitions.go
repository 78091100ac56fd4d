package rowscan

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// nullPartition is the value of a partition whose column is null.
const nullPartition = "__HIVE_DEFAULT_PARTITION__"

// partition is a column and its value, from a directory such as "label=cat".
type partition struct{ name, value string }

// partitionsOf returns the partitions in the directories of a key. Names and values are
// percent-decoded, as in pyarrow.dataset.
func partitionsOf(key string) (all []partition, err error) {
	elements := strings.Split(key, "/")
	for _, element := range elements[:len(elements)-1] {
		name, value, ok := strings.Cut(element, "=")
		if !ok || name == "" {
			continue
		}
		p := partition{}
		if p.name, err = url.PathUnescape(name); err == nil {
			p.value, err = url.PathUnescape(value)
		}
		if err != nil {
			return nil, fmt.Errorf("directory %q: %w", element, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// addPartitions adds the columns of Hive partitions to the schema. A column is an int32 if all its
// values are, and else text, as pyarrow.dataset infers it. Columns that files have stay as they are.
func (d *dataset) addPartitions() error {
	d.partitions = map[string][]rows.Constant{}
	found, names := make([][]partition, len(d.shards)), []string(nil)
	for i, s := range d.shards {
		all, err := partitionsOf(s.Key)
		if err != nil {
			return fmt.Errorf("object %s: %w", s.Key, err)
		}
		found[i] = all
		own := make([]string, len(all))
		for j, p := range all {
			own[j] = p.name
		}
		if i > 0 && !slices.Equal(own, names) {
			return fmt.Errorf("objects %s and %s are in directories of different partitions: index each kind separately (--match)", d.shards[0].Key, s.Key)
		}
		names = own
	}
	for j, name := range names {
		if d.origins[name] != "" || slices.Contains(names[:j], name) {
			continue
		}
		node := &rows.Node{Name: name, Type: "int32", Kind: rows.Fixed, Size: 4, Nullable: true}
		for _, all := range found {
			if _, err := strconv.ParseInt(all[j].value, 10, 32); err != nil && all[j].value != nullPartition {
				node = &rows.Node{Name: name, Type: "utf8", Kind: rows.Bytes, Nullable: true}
				break
			}
		}
		d.schema = append(slices.Clone(d.schema), node)
		for i, s := range d.shards {
			d.partitions[s.Key] = append(d.partitions[s.Key], rows.Constant{Node: node, Value: found[i][j].encode(node)})
		}
	}
	return nil
}

// encode returns the value in the form of rows; nil: null.
func (p partition) encode(n *rows.Node) []byte {
	switch {
	case p.value == nullPartition:
		return nil
	case n.Kind == rows.Bytes:
		return append([]byte{}, p.value...)
	}
	v, _ := strconv.ParseInt(p.value, 10, 32) // addPartitions has parsed it
	return binary.LittleEndian.AppendUint32(nil, uint32(v))
}
