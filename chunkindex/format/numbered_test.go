package format_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
)

func TestNumbered(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "a/000000000", 9: "a/000000009", 10: "a/000000010", 123_456_789: "a/123456789", 99_999_999: "a/099999999",
		100_000_000: "a/100000000", 1_000_000_000: "a/1000000000",
	} {
		if got := format.Numbered("a", n); got != want {
			t.Errorf("sample %d: got %s, want %s", n, got, want)
		}
	}
}

func TestStem(t *testing.T) {
	for key, want := range map[string]string{
		"a/b.jsonl": "a/b", "a/b.jsonl.gz": "a/b", "b.ndjson.zst": "b", "b.x.jsonl": "b.x", "b": "b", "b.gz": "b",
		".jsonl": ".jsonl", "a/.jsonl.gz": "a/.jsonl", "a/.gz": "a/.gz", "b.json": "b.json",
		"b.zstd.bin": "b.bin", "b.jsonl.zstd": "b", "b.tgz": "b.tar",
	} {
		if got := format.Stem(key, ".jsonl", ".ndjson"); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}
