package browser_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	arrowmemory "github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/parquet-go/parquet-go"

	"github.com/millrace-data/millrace/chunkindex/framing"
)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// header returns the header of an .npy file.
func header(descr, shape string) string {
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, shape)
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(text)))) + text
}

// tfrecord returns data as a TFRecord.
func tfrecord(data string) string {
	masked := func(b []byte) []byte {
		sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		return binary.LittleEndian.AppendUint32(nil, (sum>>15|sum<<17)+0xa282ead8)
	}
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	return string(length) + string(masked(length)) + data + string(masked([]byte(data)))
}

// example returns a tf.train.Example with one feature, a list of one text.
func example(name, text string) string {
	field := func(number byte, b string) string {
		return string(append([]byte{number<<3 | 2}, binary.AppendUvarint(nil, uint64(len(b)))...)) + b
	}
	return field(1, field(1, field(1, name)+field(2, field(1, field(1, text)))))
}

// parquetColumns writes columns whose names and values are markup.
func parquetColumns(t *testing.T, dir string) {
	t.Helper()
	long := strings.Repeat("\u202e<b>", 600) // the name of a column may have at most 4 KiB
	row := map[string]any{long: "1", "<img src=x onerror=alert(22)>": markup, "__proto__": "1", `" onclick="x`: "javascript:alert(1)", "of": map[string]any{"constructor": markup}}
	schema := parquet.NewSchema("<script>", parquet.Group{
		long: parquet.String(), "<img src=x onerror=alert(22)>": parquet.String(), "__proto__": parquet.String(), `" onclick="x`: parquet.JSON(), "of": parquet.Group{"constructor": parquet.String()},
	})
	f, err := os.Create(filepath.Join(dir, "a.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewGenericWriter[any](f, schema)
	if _, err := w.Write([]any{row, row}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// arrowColumns writes columns of texts, lists, structs and maps with markup in their names and
// values.
func arrowColumns(t *testing.T, dir string) {
	t.Helper()
	const name = "<img src=x onerror=alert(23)>"
	inside := arrow.StructOf(arrow.Field{Name: "__proto__", Type: arrow.BinaryTypes.String}, arrow.Field{Name: name, Type: arrow.ListOf(arrow.BinaryTypes.String)})
	schema := arrow.NewSchema([]arrow.Field{{Name: name, Type: arrow.BinaryTypes.String}, {Name: "__proto__", Type: arrow.ListOf(inside)}, {Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String)}}, nil)
	b := array.NewRecordBuilder(arrowmemory.DefaultAllocator, schema)
	defer b.Release()
	row := fmt.Sprintf(`{%q: %s, "__proto__": [{"__proto__": "polluted", %q: [%s, "__proto__"]}], "map": [{"key": "__proto__", "value": %s}]}`, name, quoted(markup), name, quoted(markup), quoted(markup))
	if err := b.UnmarshalJSON([]byte(row)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "a.arrow"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(schema))
	if err == nil {
		err = w.Write(b.NewRecordBatch())
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sized returns the values, each preceded by its length.
func sized(values ...string) string {
	out := ""
	for _, v := range values {
		out += string(binary.LittleEndian.AppendUint32(nil, uint32(len(v))))
	}
	return out + strings.Join(values, "")
}

// mdsColumns writes columns with markup in their names, and values that contradict their encodings.
func mdsColumns(t *testing.T, dir string) {
	t.Helper()
	values := []string{markup, markup, "\x0e\xff\xff\xff\xff\xff\xff\xff\xff" + markup, "\xff\xff\xff\xff\xff\xff\xff\xff\x03\x00\x00\x00RGB", markup, "cposix\nsystem\n"}
	const constants = `{"column_encodings":["str","json","ndarray","pil","jpeg","pkl"],"column_names":["<img src=x onerror=alert(24)>","__proto__","constructor","d","e","f"],"column_sizes":[null,null,null,null,null,null]}`
	f, err := framing.Read(framing.MDS, json.RawMessage(constants))
	if err != nil {
		t.Fatal(err)
	}
	sample := sized(values...)
	before, _, err := f.Frame([]uint32{uint32(len(sample))})
	if err != nil {
		t.Fatal(err)
	}
	index, err := framing.MDSIndex(json.RawMessage(constants), []framing.MDSBatch{{Name: "shard.00000.mds", Samples: 1, Bytes: int64(len(before) + len(sample))}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, file{"shard.00000.mds", string(before) + sample}, file{"index.json", string(index)})
}

// litdataLeaves writes leaves with values that contradict their serializers.
func litdataLeaves(t *testing.T, dir string) {
	t.Helper()
	const config = `{"chunk_bytes":65536,"chunk_size":null,"compression":null,"data_format":["str","numpy","tensor","pil","jpeg","pickle","<img src=x onerror=alert(28)>"],"data_spec":"[1, {\"type\": \"builtins.list\", \"context\": \"null\", \"children_spec\": [` +
		`{\"type\": null, \"context\": null, \"children_spec\": []}]}]","encryption":null,"item_loader":"PyTreeLoader"}`
	f, err := framing.Read(framing.LitData, json.RawMessage(`{"data_format":["str"]}`))
	if err != nil {
		t.Fatal(err)
	}
	sample := sized(markup, "\xff\xff\xff\xff\xff\xff\xff\xff", "\x01\x00\x00\x00\xff\xff\xff\x7f", "\xff\xff\x00\x00\xff\xff\x00\x00\x03\x00\x00\x00RGB", markup, "cposix\nsystem\n", markup)
	before, after, err := f.Frame([]uint32{uint32(len(sample))})
	if err != nil {
		t.Fatal(err)
	}
	body := string(before) + sample + string(after)
	index := fmt.Sprintf(`{"chunks":[{"chunk_bytes":%d,"chunk_size":1,"dim":null,"filename":"chunk-0-0.bin"}],"config":%s,"updated_at":"1"}`, len(body), config)
	put(t, dir, file{"chunk-0-0.bin", body}, file{"index.json", index})
}
