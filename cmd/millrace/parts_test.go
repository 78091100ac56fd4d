package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// manyLines makes a directory of small shards, and returns it.
func manyLines(t *testing.T, shards int) string {
	t.Helper()
	files := map[string]string{}
	for i := range shards {
		files[fmt.Sprintf("a-%02d.jsonl", i)] = fmt.Sprintf("{\"a\":%d}\n{\"b\":%d}\n", i, i*i)
	}
	return write(t, files)
}

// TestIndex_InParts: the error lists the missing parts. Each suggested command works as printed.
func TestIndex_InParts(t *testing.T) {
	dir := manyLines(t, 10)
	o := ok(t, "index", dir, "--part", "1/3", "--match", "*.jsonl")
	if want := "scanned part 1 of 3 of file://" + dir + "\n  3 shards of 10, "; !strings.HasPrefix(o.stdout, want) ||
		!strings.HasSuffix(o.stdout, "when all 3 parts are done: millrace index "+dir+" --match '*.jsonl'\n") {
		t.Errorf("got %s, want %s, and the command that joins", o.stdout, want)
	}
	o = millrace(t, nil, "index", dir, "--match", "*.jsonl")
	for _, want := range []string{
		": 7 of 10 shards (", ") are missing, unfinished parts: 2 of 3.",
		"\n  millrace index " + dir + " --match '*.jsonl' --part 0/3  # 4 shards, such as a-00.jsonl",
		" --part 2/3  # 3 shards, such as a-02.jsonl", " --part rest  # 7 shards",
	} {
		if o.code != exitFailure || !strings.Contains(o.stderr, want) {
			t.Errorf("got exit code %d, %s, want %s", o.code, o.stderr, want)
		}
	}
	if o := millrace(t, nil, "index", dir); !strings.Contains(o.stderr, "no part was started with these options. This command cannot use the scans of 3 parts that were started with --match '*.jsonl'") {
		t.Errorf("other options: got %s", o.stderr)
	}
	o = millrace(t, nil, "index", dir, "--match", "*.jsonl")
	for _, line := range strings.Split(o.stderr, "\n") {
		if command, _, is := strings.Cut(line, "  # "); is || strings.Contains(line, "--part 0/") {
			command = strings.ReplaceAll(command, "'", "")
			if !strings.HasSuffix(command, "rest") {
				ok(t, strings.Fields(command)[1:]...)
			}
		}
	}
	if o := ok(t, "index", dir, "--match", "*.jsonl"); !strings.Contains(o.stdout, "read 0 B, reused 10 shards") {
		t.Errorf("got %s, want the parts joined", o.stdout)
	}
	if left, err := os.ReadDir(filepath.Join(dir, ".millrace", "scan")); len(left) > 0 {
		t.Errorf("got %v, %v left, want nothing", left, err)
	}
}

// TestIndex_RejectsInvalidParts: invalid parts are rejected before anything is read.
func TestIndex_RejectsInvalidParts(t *testing.T) {
	for _, part := range []string{"", "3", "3/3", "-1/3", "0/0", "a/b", "1/2/3", "Rest"} {
		if o := millrace(t, nil, "index", t.TempDir(), "--part", part); o.code != exitUsage || !strings.Contains(o.stderr, "must be I/N, such as 0/16 to 15/16, or the word rest") {
			t.Errorf("%q: got exit code %d, %s", part, o.code, o.stderr)
		}
	}
}

// TestIndex_PartsRequireSharedLocation: --part requires an index location that all machines can
// reach, so the cache of one user is rejected.
func TestIndex_PartsRequireSharedLocation(t *testing.T) {
	dir := write(t, map[string]string{"cat/a.jpg": "a", "cat/b.jpg": "b", "dog/c.jpg": "c"})
	if o := millrace(t, nil, "index", dir, "--part", "0/2"); o.code != exitStore || !strings.Contains(o.stderr, "set --index-url to a location that all machines can write") {
		t.Errorf("got exit code %d, %s", o.code, o.stderr)
	}
	at := t.TempDir()
	ok(t, "index", dir, "--part", "0/2", "--index-url", at)
	ok(t, "index", dir, "--part", "1/2", "--index-url", at)
	if o := ok(t, "index", dir, "--index-url", at); !strings.Contains(o.stdout, "read 0 B, reused 3 shards") {
		t.Errorf("got %s, want the parts joined", o.stdout)
	}
}

// TestPack_InParts: each run packs and scans a part. The run that joins the parts reads no shard,
// and makes the same index as a single run.
func TestPack_InParts(t *testing.T) {
	files := map[string]string{}
	for i := range 60 {
		files[fmt.Sprintf("%s/%02d.txt", []string{"cat", "dog"}[i%2], i)] = strings.Repeat("x", 1000+i)
	}
	from, one, many := write(t, files), t.TempDir(), t.TempDir()
	args := func(to string, more ...string) []string {
		return append([]string{"pack", from, to, "--shard-size", "8KiB", "--label-from-directory"}, more...)
	}
	want := ok(t, args(one)...)
	for _, part := range []string{"2/40", "39/40", "0/3", "1/3"} { // each fortieth of the files fills one shard or none
		if o := ok(t, args(many, "--part", part)...); !strings.Contains(o.stdout, "packed part "+strings.Replace(part, "/", " of ", 1)) ||
			!strings.Contains(o.stdout, "when all") {
			t.Errorf("part %s: got %s", part, o.stdout)
		}
	}
	o := millrace(t, nil, args(many)...)
	if o.code != exitFailure || !strings.Contains(o.stderr, "millrace pack "+from+" "+many+" --shard-size 8KiB --label-from-directory --part ") {
		t.Errorf("got exit code %d, %s, want the commands that are missing", o.code, o.stderr)
	}
	ok(t, args(many, "--part", "2/3")...)
	got := ok(t, args(many)...)
	if !strings.Contains(got.stdout, "read 0 B") {
		t.Errorf("got %s, want no shard read again", got.stdout)
	}
	lines := func(s string) []string {
		return slices.DeleteFunc(strings.Split(s, "\n"), func(line string) bool {
			return strings.Contains(line, "finished before") || strings.Contains(line, "reused") || strings.Contains(line, "indexed")
		})
	}
	if !slices.Equal(lines(got.stdout), lines(want.stdout)) {
		t.Errorf("got %s, want %s", got.stdout, want.stdout)
	}
}
