package webdataset_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"testing"
)

// Where an extended header gives a size, the member's own field does not count: other
// archivers leave it at zero.
func TestSizeOfAnExtendedHeader(t *testing.T) {
	const body = "the bytes of a sample, which no field of its own header counts"
	b := archive(t,
		// A record that archive/tar lets through, of the length that the one of the size has.
		member{name: "a.jpg", body: body, records: map[string]string{"SIZE": fmt.Sprint(len(body))}, format: tar.FormatPAX},
		member{name: "b.jpg", body: "b"},
	)
	b = bytes.Replace(b, []byte("SIZE="), []byte("size="), 1)
	sum(b[:512])
	own := b[1024:1536] // behind the extended header and its one block of records
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

// sum writes the checksum of a header that was edited.
func sum(header []byte) {
	n := 8 * int(' ')
	for i, c := range header {
		if i < 148 || i >= 156 {
			n += int(c)
		}
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", n))
}
