package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// oddity is an unusual item in real folders, created by the tool that causes it.
type oddity struct {
	name string
	make string // script for bash in an empty directory; $ODD is `python odd.py`
	args string // of index
	want string // expected contents of the indexing report, by name, or of the error
}

// oddities returns those rows of the table in docs/spec/formats.md that are about objects and
// members.
func oddities() []oddity {
	const pictures = "mkdir cat; echo a >cat/frame.0001.png; echo b >cat/frame.0002.png; "
	const members = "for i in 0 1; do echo $i >$i.jpg; echo $i >$i.cls; cp $i.jpg ._$i.jpg; cp $i.cls ._$i.cls; done; "
	const array = "jq -n '[range(3) | {n: .}]' >a.json; "
	return []oddity{
		{"hidden members, by bsdtar", members + "bsdtar -cf a.tar ./._0.cls ./0.cls ./._0.jpg ./0.jpg ./._1.jpg ./1.jpg; rm *.jpg *.cls ._*", "", "samples=2 hidden_members=3 format=tar"},
		{"hidden members, by GNU tar", members + "mkdir .git; echo x >.git/config; tar --sort=name -cf a.tar .git [01].*; rm -r [01].* .git ._*", "", "samples=2 hidden_members=1"},
		{"hidden members that are asked for", "mkdir .d; echo x >.d/1; tar -cf a.tar .d; rm -r .d", "--hidden", "samples=1 hidden_members=0"},
		{"hidden objects", pictures + "touch .DS_Store cat/Thumbs.db cat/desktop.ini; mkdir __MACOSX; cp cat/frame.0001.png __MACOSX/", "", "samples=2 hidden=4 format=files"},
		{"a volume label", "echo x >a.jpg; tar -V label -cf a.tar a.jpg; rm a.jpg", "", "samples=1"},
		{"a global header of owners", "echo x >a.jpg; tar --format=posix --pax-option=uname=nobody,comment=c -cf a.tar a.jpg; rm a.jpg", "", "samples=1"},
		{"hard links", "echo x >a.jpg; ln a.jpg b.jpg; tar -cf a.tar a.jpg b.jpg; rm *.jpg", "", "tar --hard-dereference writes files instead"},
		{"hard links, written as files", "echo x >a.jpg; ln a.jpg b.jpg; tar --hard-dereference -cf a.tar a.jpg b.jpg; rm *.jpg", "", "samples=2"},
		{"a tar of no bytes", "echo x >a.jpg; tar -cf a.tar a.jpg; rm a.jpg; touch failed.tar", "", "samples=1 empty_shards=1"},
		{"tars without suffix", "echo x >a.jpg; tar -cf one a.jpg; bsdtar -czf two.gz a.jpg; rm a.jpg; echo about >README", "--format tar", "shards=2 ignored=1"},
		{"a damaged tar", "echo x >a.jpg; tar -cf one a.jpg; rm a.jpg; head -c 9999 /dev/urandom >two", "--format tar", "object two does not begin like a tar"},
		{"zip", "echo x >a.jpg; mkdir __MACOSX; cp a.jpg __MACOSX/; zip -qr a.zip a.jpg __MACOSX/a.jpg; rm -r a.jpg __MACOSX", "", "samples=1 format=zip hidden_members=1"},
		{"zip without suffix", "echo x >a.jpg; zip -q a.zip a.jpg; rm a.jpg; mv a.zip data", "", "object data: it is a zip archive, which is read only if no other format is present"},
		{"zip without suffix, which is asked for", "echo x >a.jpg; zip -q a.zip a.jpg; rm a.jpg; mv a.zip data", "--format zip", "samples=1"},
		{"zip among pictures", pictures + "zip -q a.zip cat/frame.0001.png", "", "1 zip shard, such as a.zip"},
		{"zip of pictures and labels", "for i in 0 1; do echo x >$i.jpg; echo 1 >$i.txt; done; zip -q a.zip 0.* 1.*; rm *.jpg *.txt", "", "samples=2 format=zip"},
		{"zip of pictures and labels, each of which is a sample", "echo x >a.jpg; echo 1 >a.txt; zip -q a.zip a.jpg a.txt; rm a.jpg a.txt", "--sample-key path", "samples=2"},
		{"zip of pictures, and labels behind them", "for i in 0 1; do echo x >$i.jpg; echo 1 >$i.txt; done; zip -q a.zip *.jpg *.txt; rm *.jpg *.txt", "", "members with the same key that are not adjacent count as two samples: rewrite the shard with its members sorted by name"},
		{"zip of pictures and labels, sorted", "for i in 0 1; do echo x >$i.jpg; echo 1 >$i.txt; done; ls *.jpg *.txt | LC_ALL=C sort | zip -q@ a.zip; rm *.jpg *.txt", "", "samples=2"},
		{"zip of frames", pictures + "zip -qr a.zip cat; rm -r cat", "", "samples=1 format=zip"},
		{"zip of frames, each of which is a sample", pictures + "zip -qr a.zip cat; rm -r cat", "--sample-key path", "samples=2 format=zip"},
		{"zip with a password", "echo x >a.jpg; zip -qP secret a.zip a.jpg; rm a.jpg", "", "a.jpg\" at offset 0: it is encrypted"},
		{"zip by bzip2", "seq 999 >a.txt; zip -qZ bzip2 a.zip a.txt; rm a.txt", "", "compressed by method 12 (bzip2), which is not supported"},
		{"zip with links", "echo x >a.jpg; ln -s a.jpg b.jpg; zip -q --symlinks a.zip a.jpg b.jpg; rm *.jpg", "", "it is a link"},
		{"zip with bytes before it", "echo x >a.jpg; zip -q b.zip a.jpg; (echo before; cat b.zip) >a.zip; rm a.jpg b.zip", "", "preceded by other bytes"},
		{"zip that was cut", "echo x >a.jpg; zip -q b.zip a.jpg; head -c 50 b.zip >a.zip; rm a.jpg b.zip", "", "it does not end like a zip archive"},
		{"zip as samples, which is asked for", "echo x >a.jpg; zip -q a.zip a.jpg; rm a.jpg", "--format files", "samples=1"},
		{"xz", "echo '{}' >a.jsonl; cp a.jsonl b.jsonl; xz b.jsonl", "", "samples=2 shards=2 format=jsonl"},
		{"xz without suffix", "echo '{}' | xz >a", "", "object a: it is compressed by xz, but its name does not say so: let its name end in .xz"},
		{"an xz dictionary that is too long", "head -c 1000 /dev/urandom | base64 -w0 | sed 's/.*/\"&\"/' >a.jsonl; xz --lzma2=dict=96MiB a.jsonl", "", "recompress the object by xz -9 or less, or by zstd"},
		{"lz4 beside shards", "echo '{}' >a.jsonl; cp a.jsonl b.jsonl.lz4", "", "object b.jsonl.lz4: it is compressed by lz4, which is not supported"},
		{"bzip2", "echo '{}' >a.jsonl; bzip2 a.jsonl", "", "object a.jsonl.bz2: it is compressed by bzip2, which is not supported: compress it with zstd or gzip instead"},
		{"bzip2 without suffix", "echo '{}' | bzip2 >a", "", "object a: it is compressed by bzip2, which is not supported"},
		{"Parquet", "$ODD parquet .", "", "shards=2 format=parquet"},
		{"Parquet without suffix", "$ODD parquet .; mv train-00000-of-00002.parquet a; rm *.parquet", "", "object a: it is Parquet, but its name does not say so: let its name end in .parquet"},
		{"Arrow", "$ODD arrow .", "", "object data-00000-of-00001: it is Arrow IPC"},
		{"NumPy's zip", "$ODD npz .", "", "samples=1 format=files"},
		{"a table beside pictures", pictures + "printf 'file,class\\ncat/frame.0001.png,cat\\n' >metadata.csv", "", "--match '*.csv'  # 1 csv shard, such as metadata.csv"},
		{"lines beside pictures", pictures + "echo '{\"file_name\": \"cat/frame.0001.png\"}' >metadata.jsonl", "", "--match '*.png'  # 2 image objects, each a sample"},
		{"lines beside pictures, of which the pictures are chosen", pictures + "echo '{\"file_name\": \"cat/frame.0001.png\"}' >metadata.jsonl", "--match *.png", "samples=2 format=files"},
		{"Parquet beside pictures", pictures + "$ODD parquet .; rm train-00001*", "", "--match '*.parquet'  # 1 parquet shard, such as train-00000-of-00002.parquet"},
		{"a figure beside Parquet", pictures + "$ODD parquet .; rm cat/frame.0002.png", "", "shards=2 format=parquet ignored=2"},
		{"what writers leave", "echo '{}' >a.jsonl; echo 1 >_SUCCESS; echo 1 >_committed_17; echo x >a.jsonl.md5; echo x >load.py; echo '{}' >metadata.json", "--format jsonl", "samples=1 ignored=5"},
		{"an array of JSON", array, "", "samples=3 format=jsonl"},
		{"JSON objects one after another", "seq 3 | jq '{n: .}' >a.json", "", "samples=3 format=jsonl"},
		{"arrays of JSON", array + "mkdir d; cp a.json d/b.json; for i in $(seq 7); do cp a.json d/$i.json; done", "", "samples=27 format=jsonl"},
		{"an array of numbers", "echo '[1, 2]' >a.json", "", "--format files  # takes each object as one sample"},
		{"an array of JSON beside Parquet", array + "$ODD parquet .", "", "shards=2 format=parquet ignored=2"},
		{"lines beside Parquet", "for i in 1 2; do echo '{}' >$i.jsonl; done; $ODD parquet .", "", "samples=2 format=jsonl ignored=3"},
		{"Hive partitions", "mkdir a=1 a=2; echo '{}' | tee a=1/x.jsonl >a=2/x.jsonl", "", "--match '*'  # omits these columns"},
		{"pickle", "echo x >a.pkl", "", "object a.pkl: it is pickled by Python, which is not supported"},
		{"a table beside lines", "echo '{}' >a.jsonl; echo a,b >b.csv", "", "samples=1 format=jsonl ignored=1"},
		{"tables with other headers", "printf 'a,b\\n1,2\\n' >1.csv; printf 'a,c\\n1,2\\n' >2.csv", "", "shards of one dataset must have the same header"},
		{"tables without a header", "seq -f '%g,1' 9 >all; split -l 3 --additional-suffix=.csv all part-; rm all", "--header absent", "samples=9 shards=3"},
		{"tables without a header, of which nobody says so", "seq -f '%g,1' 9 >a.csv", "", "object a.csv: its first record, \"1,1\", has a number, so it may be a sample rather than a header: use --header absent"},
		{"sentences without a header", "printf 'Go.\\tVa !\\nRun!\\tCours !\\n' >1.tsv; printf 'Hi.\\tSalut !\\n' >2.tsv", "", "it is \"Hi.\\tSalut !\", but that of 1.tsv is \"Go.\\tVa !\": shards of one dataset must have the same header; if they have none, use --header absent"},
		{"a table cut inside a quoted field", "printf 'a,b\\n1,\"2' >1.csv", "", "the file ends inside a quoted field"},
		{"capitals", "echo '{}' >A.JSONL; gzip -S .GZ A.JSONL", "", "samples=1 format=jsonl"},
		{"zeros behind gzip", "echo '{}' | gzip >a.jsonl.gz; head -c 512 /dev/zero >>a.jsonl.gz", "", "samples=1"},
		{"gzip under another name", "echo '{}' | gzip >a", "", "object a: it is compressed by gzip, but its name does not say so: let its name end in .gz"},
		{"many gzip members of a line feed", "echo '{}' | gzip >a.jsonl.gz; echo | gzip >nl; for i in $(seq 14); do cat nl nl >n2; mv n2 nl; done; cat nl >>a.jsonl.gz; rm nl", "", "samples=1"},
		{"a window of zstd that is too long", "head -c 10000000 /dev/urandom | base64 -w0 | sed 's/.*/\"&\"/' >a.jsonl; zstd -q --rm --long=27 a.jsonl", "", "recompress the object without --long and --ultra"},
		{"lines cut by split", "for i in 1 2 3 4; do printf '{\"a\":\"%06000d\"}\\n' $i; done >all; split -l 2 --additional-suffix=.json all part-; rm all", "", "samples=4 format=jsonl"},
		{"lines cut by split, without suffix", "seq 9 >all; split -l 2 all part-; rm all; touch _SUCCESS", "--format jsonl", "samples=9 ignored=1"},
		{"lines cut by split inside", "for i in 1 2 3; do echo '{\"a\": 1}'; done >all; split -b 12 all part-; rm all", "--format jsonl", ": at offset"},
		{"lines that are not ended, byte order mark", "$ODD jsonl .", "", "samples=8 format=jsonl"},
		{"TFRecords without suffix", "$ODD tfrecord .", "", "samples=10 format=tfrecord"},
		{"a damaged TFRecord", "$ODD damaged .", "--format tfrecord", "object train-00001-of-00002 does not begin with a TFRecord"},
		{"a damaged TFRecord, unasked", "$ODD damaged .", "", "object train-00001-of-00002 does not begin with a TFRecord"},
		{"wide MDS", "$ODD mds .", "", "samples=3 format=mds"},
		{"wide LitData", "$ODD litdata .", "", "samples=3 format=litdata"},
		{"dots in names", pictures + "cp cat/frame.0001.png cat/1.jpg; cp cat/1.jpg cat/1.png", "", "samples=4 format=files"},
		{"markers and notes beside pictures", pictures + "touch _SUCCESS; echo about >README.md", "", "samples=2 ignored=2"},
		{"pictures and labels", pictures + "echo cat >cat/frame.0001.txt", "", "makes shards in which files that differ only in the extension are one sample"},
		{"what nobody knows", pictures + "echo x >classes.xyz", "", "object classes.xyz: its name is not that of an image"},
	}
}

// TestOddities indexes the files that common tools leave behind.
func TestOddities(t *testing.T) {
	store := harness.Open(t, "dir")
	python, env := harness.Python(t)
	script, err := filepath.Abs(filepath.Join("python", "odd.py"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range oddities() {
		t.Run(o.name, func(t *testing.T) {
			dir := t.TempDir()
			tool := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", o.make)
			tool.Dir, tool.Env = dir, append(env, fmt.Sprintf("ODD=%s -W ignore %s", python, script))
			if out, err := tool.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", o.make, err, out)
			}
			args := append([]string{"index", dir}, strings.Fields(o.args)...)
			if !strings.Contains(o.want, "=") {
				r := harness.Run(t, store, args...)
				if r.Code == 0 || !strings.Contains(r.Stderr, o.want) {
					t.Errorf("got exit code %d\n%s%s, want %q", r.Code, r.Stdout, r.Stderr, o.want)
				}
				return
			}
			r := harness.Run(t, store, append(args, "--json")...)
			var report map[string]any
			if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
				t.Fatalf("got %s%s, %v", r.Stdout, r.Stderr, err)
			}
			for _, want := range strings.Fields(o.want) {
				name, value, _ := strings.Cut(want, "=")
				if got := fmt.Sprint(report[name]); got != value {
					t.Errorf("got %s %s, want %s\n%s", name, got, value, r.Stdout)
				}
			}
		})
	}
}

// TestBatchesOfLinesThatAreNotEnded checks that batches of lines without a final newline are valid
// JSON Lines in any order.
func TestBatchesOfLinesThatAreNotEnded(t *testing.T) {
	store := harness.Open(t, "minio")
	objects := store.Objects(t)
	lines := map[string][]byte{}
	for i := range 5 {
		lines[fmt.Sprintf("part-%d.jsonl", i)] = fmt.Appendf(nil, "\xef\xbb\xbf{\"id\":%d}\r\n{\"id\":%d}", 2*i, 2*i+1)
	}
	upload(t, objects, saveAs(t, "lines", lines), "lines")
	harness.MustRun(t, store, "index", store.Dataset("lines"))
	g := harness.Serve(t, store, "lines")
	fetched(t, store, g, "lines")
	seen := map[int]bool{}
	for _, b := range epochOf(t, g, "lines", 1, 3) {
		if n := bytes.Count(b.body, []byte("\n")); n != b.samples || !bytes.HasSuffix(b.body, []byte("\n")) {
			t.Errorf("got %q, want %d lines", b.body, b.samples)
		}
		for line := range bytes.Lines(b.body) {
			var value struct{ ID int }
			if err := json.Unmarshal(line, &value); err != nil {
				t.Errorf("line %q: %v", line, err)
			}
			seen[value.ID] = true
		}
	}
	if len(seen) != 10 {
		t.Errorf("got %v, want all ten lines", seen)
	}
	harness.MustRun(t, store, "verify", store.Dataset("lines"))
}
