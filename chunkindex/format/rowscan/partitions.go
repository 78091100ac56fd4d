package rowscan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
		if err == nil && !utf8.ValidString(p.name+p.value) {
			err = errors.New("not UTF-8")
		}
		if err != nil {
			return nil, fmt.Errorf("directory %q: %w", element, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// addPartitions adds the columns of Hive partitions to the schema. A column is an int32 if all its
// values are, and else text, as pyarrow.dataset infers it. Columns that files have are read from them.
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
		if slices.Contains(names[:j], name) || len(d.Names) > 0 && !slices.Contains(d.Names, name) {
			continue
		}
		values := make([]string, len(found))
		for i, all := range found {
			values[i] = all[j].value
		}
		if err := d.addPartition(name, values); err != nil {
			return err
		}
	}
	return nil
}

// addPartition adds one column, with the value of each shard. If some files have the column, the
// other ones get the value of their directory.
func (d *dataset) addPartition(name string, values []string) error {
	node := &rows.Node{Name: name, Type: "int32", Kind: rows.Fixed, Size: 4, Nullable: true}
	if slices.ContainsFunc(values, func(v string) bool { return v != nullPartition && !isInt32(v) }) {
		node = &rows.Node{Name: name, Type: "utf8", Kind: rows.Bytes, Nullable: true}
	}
	at := slices.IndexFunc(d.schema, func(n *rows.Node) bool { return n.Name == name })
	switch {
	case at < 0:
		d.schema = append(slices.Clone(d.schema), node)
	case d.schema[at].Type != node.Type && d.lacking[name]:
		return fmt.Errorf("column %q is of type %s in object %s, and of type %s in directory names: remove it from the files or from the names", name, d.schema[at].Type, d.origins[name], node.Type)
	}
	for i, s := range d.shards {
		d.partitions[s.Key] = append(d.partitions[s.Key], rows.Constant{Node: node, Value: partition{name, values[i]}.encode(node)})
	}
	return nil
}

// isInt32 reports whether a value is an int32 as pyarrow.dataset reads it.
func isInt32(v string) bool {
	_, err := strconv.ParseInt(v, 10, 32)
	return err == nil && v[0] != '+' && v != "-0"
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
