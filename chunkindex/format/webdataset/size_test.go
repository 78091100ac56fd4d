package webdataset_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"testing"
)

// TestScan_SizeInAnExtendedHeader checks that the size in an extended header overrides the member's
// own field. Other archivers leave that field at zero.
func TestScan_SizeInAnExtendedHeader(t *testing.T) {
	const body = "the bytes of a sample, which no field of its own header counts"
	b := archive(t,
		// A record that archive/tar accepts and that has the same length as a record for
		// the size.
		member{name: "a.jpg", body: body, records: map[string]string{"SIZE": fmt.Sprint(len(body))}, format: tar.FormatPAX},
		member{name: "b.jpg", body: "b"},
	)
	b = bytes.Replace(b, []byte("SIZE="), []byte("size="), 1)
	sum(b[:512])
	own := b[1024:1536] // the member's own header follows the extended header and its one block of records
	copy(own[124:136], "00000000000\x00")
	sum(own)

	r := tar.NewReader(bytes.NewReader(b))
	h, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != body {
		t.Fatalf("archive/tar: %s: got %q, %v, want %q", h.Name, got, err, body)
	}
	samples, err := scan(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) != 2 || samples[0].Parts[0].Length != int64(len(body)) || samples[1].Key != "b" {
		t.Errorf("got %+v, want a with %d bytes, then b", samples, len(body))
	}
}

// TestParseHeader_AmbiguousNumbers checks that numbers that readers interpret differently are
// rejected. If a reader finds a size of 0, it treats the content as headers.
func TestParseHeader_AmbiguousNumbers(t *testing.T) {
	for field, want := range map[string]int{
		"00000000012\x00": 10, "12 ": 10, "  12": 10, "12\x0077": 10, " 12 \x00": 10,
		"": 0, "\x00\x00": 0, "  ": 0, " \x00 \x00": 0, "0\x0012": 0,
		"\x0012": -1, " \x0012": -1, "\x00 12": -1, "1 2": -1, "8": -1, "+12": -1, "1_2": -1, "0x12": -1,
	} {
		for _, content := range []int{0, 10} {
			b := archive(t, member{name: "a.jpg", body: "0123456789"[:content]})
			clear(b[124:136])
			copy(b[124:136], field)
			sum(b[:512])
			samples, err := scan(b)
			switch {
			case want < 0 && err == nil:
				t.Errorf("size %q with %d bytes: got %+v, want an error", field, content, samples)
			case content == want && (err != nil || len(samples) != 1 || samples[0].Parts[0].Length != int64(want)):
				t.Errorf("size %q with %d bytes: got %+v, %v", field, content, samples, err)
			}
		}
	}
}

// sum recomputes the checksum of a modified header.
func sum(header []byte) {
	n := 8 * int(' ')
	for i, c := range header {
		if i < 148 || i >= 156 {
			n += int(c)
		}
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", n))
}
