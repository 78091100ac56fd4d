package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

// writeInGo writes data sets with the libraries that Go programs use, and returns the names.
func writeInGo(t *testing.T, dir string) []string {
	t.Helper()
	for name, write := range map[string]func(*testing.T, string){"arrow-go": writeArrow, "parquet-go": writeParquet} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name))
	}
	return []string{dir, "arrow-go", "parquet-go"}
}

// create creates a file, which is closed when the test ends.
func create(t *testing.T, dir, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// arrowBatch returns count rows, which begin at number from.
func arrowBatch(from, count int) arrow.RecordBatch {
	image := arrow.StructOf(arrow.Field{Name: "bytes", Type: arrow.BinaryTypes.Binary, Nullable: true}, arrow.Field{Name: "width", Type: arrow.PrimitiveTypes.Int32})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "ok", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32},
		{Name: "image", Type: image, Nullable: true},
		{Name: "scores", Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "words", Type: arrow.ListOf(arrow.BinaryTypes.String)},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 20, Scale: 2}},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := from; i < from+count; i++ {
		row := fmt.Sprintf(`{"id": %d, "text": "text %d", "ok": %t, "day": "2026-11-%02d", "image": {"bytes": "/9g=", "width": %d}, "scores": [%d, 0.5], "words": ["a", null, "w%d"], "price": "%d.25"}`,
			i, i, i%2 == 0, i%30+1, i, i, i, i)
		if i%4 == 1 {
			row = fmt.Sprintf(`{"id": %d, "text": null, "ok": null, "day": "1969-12-31", "image": null, "scores": null, "words": [], "price": "-0.75"}`, i)
		}
		if err := b.UnmarshalJSON([]byte(row)); err != nil {
			panic(err)
		}
	}
	return b.NewRecordBatch()
}

// writeArrow writes a stream and compressed files with arrow-go.
func writeArrow(t *testing.T, dir string) {
	t.Helper()
	schema := ipc.WithSchema(arrowBatch(0, 1).Schema())
	stream := ipc.NewWriter(create(t, dir, "a.arrows"), schema)
	lz4, err := ipc.NewFileWriter(create(t, dir, "b.arrow"), schema, ipc.WithLZ4())
	if err != nil {
		t.Fatal(err)
	}
	zstd, err := ipc.NewFileWriter(create(t, dir, "c.arrow"), schema, ipc.WithZstd())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []interface {
		Write(rec arrow.RecordBatch) error
		Close() error
	}{stream, lz4, zstd} {
		whole := arrowBatch(0, 60)
		for _, b := range []arrow.RecordBatch{whole.NewSlice(0, 13), whole.NewSlice(13, 13), whole.NewSlice(13, 60)} {
			if err := w.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// goRow is a row as a Go struct.
type goRow struct {
	ID     int64    `parquet:"id,delta"`
	Text   *string  `parquet:"text,optional,dict"`
	OK     bool     `parquet:"ok"`
	Small  int32    `parquet:"small"`
	Size   uint32   `parquet:"size"`
	Score  float64  `parquet:"score,split"`
	UUID   [16]byte `parquet:"uuid,uuid"`
	Day    int32    `parquet:"day,date"`
	At     int64    `parquet:"at,timestamp(microsecond)"`
	Price  int64    `parquet:"price,decimal(2:18)"`
	Vector []float32
	Words  []string `parquet:"words,list"`
	Image  *goImage `parquet:"image,optional"`
	Chat   []goTurn `parquet:"chat,list"`
	Counts map[string]int32
}

type goImage struct {
	Bytes []byte  `parquet:"bytes"`
	Path  *string `parquet:"path,optional"`
}

type goTurn struct {
	Role    string `parquet:"role,enum"`
	Content string `parquet:"content,delta"`
}

// writeParquet writes files with parquet-go, in all of its compressions and both versions of data
// pages.
func writeParquet(t *testing.T, dir string) {
	t.Helper()
	rows := make([]goRow, 60)
	for i := range rows {
		text := fmt.Sprintf("text %d", i%7)
		r := goRow{ID: int64(i), OK: i%3 == 0, Small: int32(-i), Size: uint32(1<<32 - 1 - i), Score: float64(i) / 3, UUID: [16]byte{byte(i), 1}, Day: int32(20000 + i), At: int64(i) * 1e15, Price: int64(-100 * i)}
		for j := range i % 4 {
			r.Vector = append(r.Vector, float32(i*j))
			r.Words = append(r.Words, fmt.Sprint("word ", j))
			r.Chat = append(r.Chat, goTurn{"user", fmt.Sprint("said ", i, j)})
		}
		if i%5 != 2 {
			r.Text, r.Image, r.Counts = &text, &goImage{Bytes: []byte{255, byte(i)}}, map[string]int32{text: int32(i)}
		}
		if i%2 == 0 && r.Image != nil {
			r.Image.Path = &text
		}
		rows[i] = r
	}
	for name, codec := range map[string]compress.Codec{
		"none": &parquet.Uncompressed, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "zstd": &parquet.Zstd, "brotli": &parquet.Brotli, "lz4": &parquet.Lz4Raw,
	} {
		for version := 1; version <= 2; version++ {
			w := parquet.NewGenericWriter[goRow](create(t, dir, fmt.Sprintf("%s-v%d.parquet", name, version)), parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(200))
			for at := 0; at < len(rows); at += 20 { // each is a row group
				if _, err := w.Write(rows[at : at+20]); err != nil {
					t.Fatal(err)
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
