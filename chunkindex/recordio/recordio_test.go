package recordio_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/recordio"
	"github.com/millrace-data/millrace/chunkindex/scantest"
)

const magic = "\x0a\x23\xd7\xce"

// file returns a .rec file of these records, as dmlc's RecordIOWriter has it, and its .idx with the keys 10, 20, ...
func file(records ...string) (rec, idx []byte) {
	for i, r := range records {
		idx = fmt.Appendf(idx, "%d\t%d\n", 10*(i+1), len(rec))
		rec = append(rec, encode(r)...)
	}
	return rec, idx
}

// encode writes a record. It is split where its data holds the magic number at a multiple of four.
func encode(data string) (b []byte) {
	piece := func(kind uint32, data string) {
		b = binary.LittleEndian.AppendUint32(append(b, magic...), kind<<29|uint32(len(data)))
		b = append(b, data...)
	}
	begun := uint32(0)
	for at := 0; at+4 <= len(data); at += 4 {
		if data[at:at+4] == magic {
			piece(1+begun, data[:at])
			data, at, begun = data[at+4:], -4, 1
		}
	}
	piece(3*begun, data)
	return append(b, make([]byte, -len(data)&3)...)
}

func rec(records ...string) []byte {
	b, _ := file(records...)
	return b
}

func idx(records ...string) []byte {
	_, b := file(records...)
	return b
}

func sample(key string, offset, length int64, ext string, size int64) scantest.Sample {
	return scantest.Sample{Key: key, Offset: offset, Length: length, Parts: []scantest.Part{{Ext: ext, Offset: 8, Length: size}}}
}

func TestShards(t *testing.T) {
	split := "head" + magic + "text" + magic + magic + "end"
	for name, c := range map[string]struct {
		o       format.Options
		objects scantest.Objects
		want    map[string][]scantest.Sample
	}{
		"numbered": {
			objects: scantest.Objects{"a.rec": rec("one", "", "four"), "d/b.REC": rec(), "notes.txt": nil},
			want: map[string][]scantest.Sample{
				"a.rec": {sample("a/000000000", 0, 12, "rec", 3), sample("a/000000001", 12, 8, "rec", 0), sample("a/000000002", 20, 12, "rec", 4)}, "d/b.REC": nil,
			},
		},
		"keys of an .idx, beside an .lst": {
			o:       format.Options{Named: true},
			objects: scantest.Objects{"a.rec": rec("one", "two"), "a.idx": idx("one", "two"), "a.lst": []byte("10\t0\tone.jpg\n"), "b": rec("three")},
			want: map[string][]scantest.Sample{
				"a.rec": {sample("a/10", 0, 12, "rec", 3), sample("a/20", 12, 12, "rec", 3)}, "b": {sample("b/000000000", 0, 16, "rec", 5)},
			},
		},
		"split records": {
			objects: scantest.Objects{"a.rec": rec(split, "one")},
			want:    map[string][]scantest.Sample{"a.rec": {sample("a/000000000", 0, 44, "split", 35), sample("a/000000001", 44, 12, "rec", 3)}},
		},
		"others": {objects: scantest.Objects{"a.record": rec("one"), "a.idx": idx("one")}},
	} {
		t.Run(name, func(t *testing.T) { scantest.Finds(t, recordio.Format(), c.o, c.objects, c.want) })
	}
}

// What MXNet 1.9.1 wrote has its keys and records, and encode writes the same bytes of them.
func TestFilesOfMXNet(t *testing.T) {
	objects := scantest.Files(t, "testdata", "images.rec", "images.idx", "plain.rec")
	found, err := scantest.Scan(t.Context(), recordio.Format(), format.Options{}, objects)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range found["images.rec"] {
		data := objects["images.rec"][s.Offset+s.Parts[0].Offset:]
		ext := "rec"
		if i == 3 { // its image holds the magic number twice
			ext = "split"
		}
		if want := fmt.Sprint("images/", 100+i); s.Key != want || s.Parts[0].Ext != ext || binary.LittleEndian.Uint64(data[8:]) != uint64(i) {
			t.Errorf("got %+v, want sample %s with a part %s and the IRHeader of image %d", s, want, ext, i)
		}
	}
	for shard, want := range map[string]int{"images.rec": 6, "plain.rec": 6} {
		var again []byte
		for _, s := range found[shard] {
			again = append(again, encode(join(objects[shard][s.Offset+8:][:s.Parts[0].Length], s.Parts[0].Ext))...)
		}
		if len(found[shard]) != want || !bytes.Equal(again, objects[shard]) {
			t.Errorf("%s: got %d samples, which encode writes as\n%x, want\n%x", shard, len(found[shard]), again, objects[shard])
		}
	}
}

// join returns the data of a record from its one part, as docs/formats.md says.
func join(part []byte, ext string) string {
	for at := 0; ext == "split" && at+8 <= len(part); at += 4 {
		if string(part[at:at+4]) == magic {
			part = append(bytes.Clone(part[:at+4]), part[at+8:]...)
		}
	}
	return string(part)
}

func TestRefusals(t *testing.T) {
	two := rec("one", "two")
	of := func(kind uint32, data string) []byte {
		b := append([]byte(magic), 0, 0, 0, 0)
		binary.LittleEndian.PutUint32(b[4:], kind<<29|uint32(len(data)))
		return append(b, data...)
	}
	for _, c := range []struct {
		objects scantest.Objects
		want    string
	}{
		{scantest.Objects{"a.rec": []byte("no record")}, "shard a.rec: at offset 0: no record begins"},
		{scantest.Objects{"a.rec": append(rec("one"), "12345678"...)}, "at offset 12: no record begins"},
		{scantest.Objects{"a.rec": two[:15]}, "at offset 12: record is cut before its length"},
		{scantest.Objects{"a.rec": two[:23]}, `"a/000000001" at offset 23: shard is truncated: 1 bytes`},
		{scantest.Objects{"a.rec": of(2, "four")}, "without its beginning"},
		{scantest.Objects{"a.rec": of(3, "four")}, "without its beginning"},
		{scantest.Objects{"a.rec": of(7, "four")}, "kind 7"},
		{scantest.Objects{"a.rec": of(1, "four")}, "cut before its length"},
		{scantest.Objects{"a.rec": append(of(1, "four"), of(0, "four")...)}, "has no end"},
		{scantest.Objects{"a.rec": append(of(1, "one"), of(3, "four")...)}, "multiple of four"},
		{scantest.Objects{"a.rec": bytes.Repeat(of(1, strings.Repeat("x", 1<<20)), 1)}, "cut before its length"},
		{scantest.Objects{"a.rec": two, "a.idx": idx("one")}, "a.idx names 1 records, and here is another"},
		{scantest.Objects{"a.rec": two, "a.idx": idx("one", "two", "three")}, `a.idx has record "30" at offset 24, where the shard has none`},
		{scantest.Objects{"a.rec": two, "a.idx": idx("four and", "two")}, `a.idx has record "20" at offset 16, and not the one that begins here`},
		{scantest.Objects{"a.rec": two, "a.idx": []byte("10 0\n")}, "no key, tab and offset"},
		{scantest.Objects{"a.rec": two, "a.idx": bytes.Repeat([]byte("1"), 5000)}, "a line that is too long"},
	} {
		scantest.Refuses(t, recordio.Format(), format.Options{}, c.objects, c.want)
	}
}

func dataset(objects scantest.Objects) scantest.Dataset {
	return scantest.Dataset{
		Format: recordio.Format(), Objects: objects,
		AsShard: func(batch []byte, _ int) scantest.Objects { return scantest.Objects{"batch.rec": batch} },
	}
}

func numbered() scantest.Dataset {
	return dataset(scantest.Objects{"a.rec": rec("one", "", "four", "some"+magic+"more"), "b.rec": rec()})
}

func TestConforms(t *testing.T) {
	t.Run("numbered", func(t *testing.T) { scantest.Conforms(t, numbered()) })
	t.Run("keys", func(t *testing.T) {
		scantest.Conforms(t, dataset(scantest.Objects{"a.rec": rec("one", "two"), "a.idx": idx("one", "two"), "b.rec": rec("three")}))
	})
}

func FuzzConforms(f *testing.F) { scantest.Fuzz(f, numbered()) }
