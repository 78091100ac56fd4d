package client

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math"
	"testing"
)

// TestManifestKeysThatAreNoText: keys that JSON cannot represent are also sent as bytes, so two of
// them stay distinct.
func TestManifestKeysThatAreNoText(t *testing.T) {
	l := lines{most: 3}
	text := `[{"key":"a\ufffd","key_base64":"Yf8="},{"key":"a\ufffd","key_base64":"Yf4="},{"key":"plain"}]`
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a\xff", "a\xfe", "plain"} {
		if got := l.read[i].Key; got != want {
			t.Errorf("sample %d: got key %q, want %q", i, got, want)
		}
	}
}

// TestManifestsOfOtherBodies: a manifest that does not match its body is a fault, for every length
// and every type of body.
func TestManifestsOfOtherBodies(t *testing.T) {
	var body bytes.Buffer
	w := tar.NewWriter(&body)
	if err := w.WriteHeader(&tar.Header{Name: "a.jpg", Size: 3, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	abc := CRC(crc32.Checksum([]byte("abc"), castagnoli()))
	for _, contentType := range []string{"application/x-tar", "application/vnd.mosaicml.mds", "application/vnd.litdata.chunk", "text/plain"} {
		for name, samples := range map[string][]Sample{
			"other bytes":     {{Length: 3, CRC32C: abc + 1}},
			"another length":  {{Length: 4, CRC32C: abc}},
			"negative":        {{Length: -3, CRC32C: abc}},
			"longer than all": {{Length: 3, CRC32C: abc}, {Length: math.MaxInt64, CRC32C: abc}},
			"twice":           {{Length: 3, CRC32C: abc}, {Length: 3, CRC32C: abc}},
		} {
			b := Batch{ContentType: contentType, data: body.Bytes(), count: len(samples)}
			if err := b.setManifest(samples); !errors.Is(err, ErrCRC) && !errors.Is(err, ErrProtocol) || b.HasManifest() {
				t.Errorf("%s, %s: got %v, want a fault", contentType, name, err)
			}
		}
	}
	b := Batch{ContentType: "application/x-tar", data: body.Bytes()[:515], count: 1}
	if err := b.setManifest([]Sample{{Length: 3, CRC32C: abc}}); err != nil || string(b.Sample(0)) != "abc" {
		t.Errorf("a member without padding: got %v, want its bytes", err)
	}
}
