package build

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// partition returns the directories of a key that encode column values in Hive's notation:
// "label=cat".
func partition(key string) []string {
	return slices.DeleteFunc(strings.Split(path.Dir(key), "/"), func(element string) bool { return strings.IndexByte(element, '=') <= 0 })
}

// refusePartitions returns an error for tables in several Hive partitions, because no sample would
// have the partition columns. It accepts a pattern that the user chose.
func (b *builder) refusePartitions() error {
	name := map[string]string{framing.CSV: "csv", framing.JSONL: "json"}[b.format.Name] // format names in pyarrow.dataset
	if name == "" || b.chosenByPattern() {
		return nil
	}
	shards := b.found.Shards
	at := slices.IndexFunc(shards, func(s format.Shard) bool { return !slices.Equal(partition(s.Key), partition(shards[0].Key)) })
	if at < 0 {
		return nil
	}
	first, other := shards[0].Key, shards[at].Key
	return &format.ChoiceError{
		Cause: fmt.Sprintf("objects %s and %s are in two partitions, with columns in the names of directories: samples have these columns only if the files contain them too", first, other),
		Ways: []format.Way{
			{
				Command: fmt.Sprintf(`python3 -c "import glob, pyarrow.dataset as d; d.write_dataset(d.dataset(sorted(glob.glob('**/*%s', recursive=True)), format='%s', partitioning='hive'), 'DESTINATION', format='parquet', max_rows_per_group=10000)"`,
					path.Ext(other), name),
				Effect: "writes Parquet files that have these columns",
			},
			{Flag: "match", Value: "*", Effect: "omits these columns"},
		},
	}
}

// chosenByPattern reports whether the user's pattern or list selects objects instead of excluding some.
func (b *builder) chosenByPattern() bool {
	return b.opt.Files != nil || b.opt.Match != "" && !strings.HasPrefix(b.opt.Match, naming.Excludes)
}
