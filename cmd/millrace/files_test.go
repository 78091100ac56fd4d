package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIndex_FilesOfAList checks that index reads only the listed objects: keys, paths and URLs.
func TestIndex_FilesOfAList(t *testing.T) {
	dir := write(t, map[string]string{"a.jsonl": "{}\n", "d/b.jsonl": "{}\n{}\n", "d/old.jsonl": "{}\n", "cut.jsonl": "{"})
	list := filepath.Join(t.TempDir(), "list")
	for lines, want := range map[string]string{
		"a.jsonl\n\n d/b.jsonl \n":                     "3 samples",
		dir + "/a.jsonl\nfile://" + dir + "/d/b.jsonl": "3 samples",
		"d/b.jsonl\r\n":                                "2 samples",
		"a.jsonl\nd/gone.jsonl\nd/lost.jsonl":          "2 of 3 listed objects do not exist, such as d/gone.jsonl",
		"a.jsonl\n/elsewhere/b.jsonl":                  "list:2: /elsewhere/b.jsonl is not below file://" + dir,
		"s3://bucket/a.jsonl":                          "list:1: s3://bucket/a.jsonl is not below",
		"\n":                                           "lists no objects",
		"a.jsonl\ncut.jsonl":                           "shard cut.jsonl",
		strings.Repeat("a.jsonl\n", 3):                 "1 sample",
	} {
		if err := os.WriteFile(list, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		o := millrace(t, nil, "index", dir, "--files", list, "--name", "v7")
		if !strings.Contains(o.stdout+o.stderr, want) || (o.code == exitOK) != strings.Contains(want, "sample") {
			t.Errorf("%q: got exit code %d, %s%s, want %q", lines, o.code, o.stdout, o.stderr, want)
		}
	}
	if o := millrace(t, nil, "index", dir, "--files", list+"no"); o.code != exitUsage || !strings.Contains(o.stderr, "--files: open "+list+"no") {
		t.Errorf("no list: got exit code %d, %s", o.code, o.stderr)
	}
}
