package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/cmd/internal/location"
)

func TestParse_AddressesWithOptions(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"photos=s3://bucket/a,index=s3://mine/photos": "photos s3://bucket/a,index=s3://mine/photos",
		"s3://bucket/a/b,index=./x":                   "b s3://bucket/a/b,index=file://" + wd + "/x",
		"./d,index=/x":                                "d file://" + wd + "/d,index=file:///x",
		"d,index=/x":                                  "d file://" + wd + "/d,index=file:///x",
		"/d,links=follow":                             "d file:///d,links=follow",
		"/d,index=/x,links=follow":                    "d file:///d,links=follow,index=file:///x",
		"/a,b":                                        "",
		"n=/a,b,index=/x,y":                           "n file:///a,b,index=file:///x,y",
		"index=/d":                                    "index file:///d",
		"/d,index=file:///d":                          "d file:///d", // next to the shards
		"/d,index=":                                   "",
		"/d,index=/x,index=/y":                        "",
		"/d,links=all":                                "",
		"s3://bucket/a,links=follow":                  "",
		"s3://bucket/a,index=s3://key:secret@mine/x":    "",
		"photos=s3://bucket/a,index=http://example.org": "",
	} {
		l, err := location.Parse(in)
		got := ""
		if err == nil {
			got = l.Name + " " + l.Address()
			if again, err := location.Parse(l.Name + "=" + l.Address()); err != nil || again.Address() != l.Address() {
				t.Errorf("%q: its own address reads as %v, %v", in, again, err)
			}
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", in, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows a secret: %v", in, err)
		}
	}
	got := location.Split("a=/a,index=/x, b=/b ,c=/c,links=follow,index=/y,,index=/z")
	if want := []string{"a=/a,index=/x", "b=/b", "c=/c,links=follow,index=/y,index=/z"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCommands_AcceptSeparateIndex runs every command that opens a dataset with a separate index.
// None of them writes to the directory of the shards.
func TestCommands_AcceptSeparateIndex(t *testing.T) {
	dir, home := shards(t), filepath.Join(t.TempDir(), "indexes", "files")
	if err := os.RemoveAll(filepath.Join(dir, ".millrace")); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	o := ok(t, "index", dir, "--index-url", home, "--batch-size", "8")
	address := "file://" + dir + ",index=file://" + home
	if !strings.Contains(o.stdout, "its address for other commands is "+address+"\n") {
		t.Errorf("got %s, want the address %s", o.stdout, address)
	}
	if again := ok(t, "index", address, "--batch-size", "8"); !strings.Contains(again.stdout, "nothing has changed") {
		t.Errorf("by its address: got %s", again.stdout)
	}
	for _, args := range [][]string{
		{"verify", address},
		{"plan", address},
		{"gc", address, "--grace", "0s"},
		{"subset", address, "--into", "a=1,b=1"},
		{"quarantine", address, "--key", "f007"},
		{"simulate", address, "--rate", "10/s", "--cache-size", "1MiB"},
		{"serve", "--dataset", "files=" + address, "--check"},
	} {
		ok(t, args...)
	}
	check := ok(t, "serve", "--dataset", "files="+address, "--dataset", "again="+address, "--check")
	file := filepath.Join(t.TempDir(), "serve.yaml")
	if err := os.WriteFile(file, []byte(check.stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	if again := ok(t, "serve", "--config", file, "--check"); strings.Count(again.stdout, "="+address+"\n") != 2 {
		t.Errorf("the configuration that --check prints reads as %s", again.stdout)
	}
	url := gatewayOf(t, "files="+address)
	ok(t, "fetch", url, "--subset", "a")
	ok(t, "warm", url)
	if after := tree(t, dir); !slices.Equal(after, before) {
		t.Errorf("beside the shards: got %q, want %q", after, before)
	}
	for _, dir := range []string{"index", "binding", "subset", "quarantine"} {
		if _, err := os.Stat(filepath.Join(home, ".millrace", dir)); err != nil {
			t.Error(err)
		}
	}
}

// tree returns the names of all files and directories below a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCommands_RejectWrongSeparateIndex(t *testing.T) {
	dir, home := shards(t), t.TempDir()
	ok(t, "index", dir, "--index-url", home)
	other := twins(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"index", other, "--index-url", home}, exitUsage, "belongs to file://" + dir},
		{[]string{"index", dir + ",index=" + home, "--index-url", home}, exitUsage, "names file://" + home + " already"},
		{[]string{"index", dir, "--index-url", "http://x"}, exitUsage, "must be s3:// or file://"},
		{[]string{"index", "s3://bucket/x", "--follow-links"}, exitUsage, "only directories have links"},
		{[]string{"verify", other + ",index=" + home}, exitNotFound, "check that the index belongs to this dataset"},
	} {
		if o := millrace(t, nil, c.args...); o.code != c.code || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%q: got exit code %d, want %d, and %q: %s", c.args, o.code, c.code, c.want, o.stderr)
		}
	}
}

// TestIndex_FollowsLinksByOption uses the layout of Hugging Face's cache: a snapshot consists of
// links to the repository's blobs.
func TestIndex_FollowsLinksByOption(t *testing.T) {
	repo := t.TempDir()
	blobs, snapshot := filepath.Join(repo, "blobs"), filepath.Join(repo, "snapshots", "abc")
	if err := os.MkdirAll(filepath.Dir(snapshot), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(twins(t), blobs); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(snapshot, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, shard := range []string{"00000.tar", "00001.tar"} {
		if err := os.Symlink(filepath.Join("..", "..", "blobs", shard), filepath.Join(snapshot, "train-"+shard)); err != nil {
			t.Fatal(err)
		}
	}
	if o := millrace(t, nil, "index", snapshot); o.code != exitNotFound || !strings.Contains(o.stderr, "2 links, such as train-00000.tar") || !strings.Contains(o.stderr, "--follow-links") {
		t.Errorf("without the option: got exit code %d: %s", o.code, o.stderr)
	}
	if o := ok(t, "index", snapshot, "--follow-links"); !strings.Contains(o.stdout, "6 samples") || !strings.Contains(o.stdout, snapshot+",links=follow") {
		t.Errorf("got %s", o.stdout)
	}
	for _, args := range [][]string{{"verify", snapshot}, {"serve", "--dataset", "hf=" + snapshot, "--check"}} {
		if o := millrace(t, nil, args...); o.code != exitFailure || !strings.Contains(o.stderr, snapshot+",links=follow") {
			t.Errorf("%s without the option: got exit code %d: %s", args[0], o.code, o.stderr)
		}
	}
	ok(t, "verify", snapshot+",links=follow")
	var rep fetchReport
	if err := json.Unmarshal([]byte(ok(t, "fetch", gatewayOf(t, "hf="+snapshot+",links=follow"), "--json").stdout), &rep); err != nil || rep.Samples != 6 {
		t.Errorf("got %+v, %v, want 6 samples", rep, err)
	}
	// A single link among files is counted and reported.
	if err := os.Symlink(filepath.Join(blobs, "00000.tar"), filepath.Join(blobs, "gone.tar")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(repo, "none"), filepath.Join(blobs, "lost.tar")); err != nil {
		t.Fatal(err)
	}
	if o := ok(t, "index", blobs, "--json"); !strings.Contains(o.stderr, "skipped 1 link, such as lost.tar") && !strings.Contains(o.stderr, "skipped 2 links") || !strings.Contains(o.stdout, `"links": `) {
		t.Errorf("got %s%s, want the links", o.stdout, o.stderr)
	}
}

func TestIndex_AsksForSplitAndWarnsOfClassFolders(t *testing.T) {
	dir := twins(t)
	for from, to := range map[string]string{"00000.tar": "train-0.tar", "00001.tar": "val-0.tar"} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	o := millrace(t, nil, "index", dir)
	for _, want := range []string{
		"\n  millrace index file://" + dir + " --split train  # 1 shard, such as train-0.tar\n", " --split val  # 1 shard, such as val-0.tar\n", " --split all  # index all of them as one",
	} {
		if o.code != exitUsage || !strings.Contains(o.stderr, want) {
			t.Errorf("got exit code %d and %s, want %d and %q", o.code, o.stderr, exitUsage, want)
		}
	}
	if o := millrace(t, nil, "index", dir, "--split", "test", "--json"); o.code != exitUsage || !strings.Contains(o.stdout, "there is no split test") {
		t.Errorf("a split that is not there: got exit code %d: %s", o.code, o.stdout)
	}
	for _, split := range []string{"train", "val"} { // as the error suggests
		if o := ok(t, "index", dir, "--split", split); !strings.Contains(o.stdout, "indexed file://"+dir+"#"+split+"\n") || !strings.Contains(o.stdout, "3 samples") {
			t.Errorf("%s: got %s%s", split, o.stdout, o.stderr)
		}
		ok(t, "verify", dir+"#"+split)
	}
	if o := ok(t, "index", dir, "--split", "all", "--json"); !strings.Contains(o.stdout, `"samples": 6`) || !strings.Contains(o.stdout, `"split": "all"`) || strings.Contains(o.stdout, `"name"`) {
		t.Errorf("all: got %s", o.stdout)
	}
	if o := ok(t, "index", dir+"#check", "--split", "validation"); !strings.Contains(o.stdout, "#check\n") || !strings.Contains(o.stdout, "3 samples") {
		t.Errorf("a split under another name: got %s", o.stdout)
	}
	if o := millrace(t, nil, "index", dir, "--split", "two words"); o.code != exitUsage || !strings.Contains(o.stderr, "--name") {
		t.Errorf("a split that makes no name: got exit code %d: %s", o.code, o.stderr)
	}
	photos := t.TempDir()
	for _, folder := range []string{"cat", "dog"} {
		if err := os.Mkdir(filepath.Join(photos, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(photos, folder, folder+".jpg"), []byte(folder), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const advice = "torchvision's ImageFolder"
	if o := ok(t, "index", photos, "--index-url", t.TempDir()); strings.Contains(o.stderr, advice) {
		t.Errorf("elsewhere: got %s", o.stderr)
	}
	if o := ok(t, "index", photos, "--index-url", photos); !strings.Contains(o.stderr, advice) || !strings.Contains(o.stderr, "remove "+photos+"/.millrace") {
		t.Errorf("got %s, want the advice", o.stderr)
	}
}

// TestIndex_UsesUserCache: the index of class folders is stored in the user's cache. All commands
// find it there, and nothing is written to the directory of the data.
func TestIndex_UsesUserCache(t *testing.T) {
	photos := t.TempDir()
	for i := range 24 {
		put(t, filepath.Join(photos, []string{"cat", "dog"}[i%2], fmt.Sprint(i, ".jpg")), fmt.Sprint(i))
	}
	put(t, filepath.Join(photos, "cat", "notes.txt"), "not a picture")
	before := tree(t, photos)
	o := ok(t, "index", photos, "--json")
	var said struct {
		Address string
		Samples int
		Example string `json:"ignored_example"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &said); err != nil || said.Samples != 24 || said.Example != "cat/notes.txt" {
		t.Errorf("got %s, %v, want 24 samples, and the note passed over", o.stdout, err)
	}
	home := os.Getenv("XDG_CACHE_HOME")
	if !strings.HasPrefix(said.Address, "file://"+photos+",index=file://"+home+"/millrace/indexes/") || !strings.Contains(o.stderr, "ImageFolder would treat an index") {
		t.Errorf("got the address %s and %s, want one in %s", said.Address, o.stderr, home)
	}
	if !slices.Equal(tree(t, photos), before) {
		t.Errorf("beside the pictures: got %q, want %q", tree(t, photos), before)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(photos, link); err != nil {
		t.Fatal(err)
	}
	want := read[struct{ Generation string }](t, "info", said.Address).Generation
	for _, address := range []string{photos, "p=" + photos, "file://" + photos, link} {
		if got := read[struct{ Address, Generation string }](t, "info", address); got.Generation != want || !strings.Contains(got.Address, ",index=") {
			t.Errorf("%s: got %+v, want %s", address, got, want)
		}
	}
	ok(t, "verify", photos)
	ok(t, "serve", photos, "--check", "--cache-size", "64MiB")
	if again := ok(t, "index", photos); !strings.Contains(again.stdout, "nothing has changed") {
		t.Errorf("again: got %s", again.stdout)
	}
	ok(t, "index", photos, "--index-url", photos)
	if got := read[struct{ Address string }](t, "info", photos).Address; got != "file://"+photos {
		t.Errorf("got %s, want the index beside the pictures, where it was asked for", got)
	}
}

func TestIndex_RejectsClassFoldersWithoutCache(t *testing.T) {
	photos := t.TempDir()
	for i := range 24 {
		put(t, filepath.Join(photos, []string{"cat", "dog"}[i%2], fmt.Sprint(i, ".jpg")), fmt.Sprint(i))
	}
	before := tree(t, photos)
	t.Setenv("XDG_CACHE_HOME", "relative") // a relative path is no valid cache directory
	o := millrace(t, nil, "index", photos)
	if o.code != exitStore || !strings.Contains(o.stderr, "ImageFolder") || !strings.Contains(o.stderr, "--index-url or XDG_CACHE_HOME") {
		t.Errorf("got exit code %d and %s, want %d and the cure", o.code, o.stderr, exitStore)
	}
	if after := tree(t, photos); !slices.Equal(after, before) {
		t.Errorf("beside the pictures: got %q, want %q", after, before)
	}
}

func TestIndex_ExplainsThatTextIsOneSample(t *testing.T) {
	const advice = "a.txt is one sample, with all its lines"
	dir := write(t, map[string]string{"a.txt": "one\ntwo\nthree\n"})
	if o := ok(t, "index", dir); !strings.Contains(o.stderr, advice) || !strings.Contains(o.stderr, "jq -cR '{text: .}'") {
		t.Errorf("got %s, want %q", o.stderr, advice)
	}
	put(t, filepath.Join(dir, "b.txt"), "another")
	if o := ok(t, "index", dir); strings.Contains(o.stderr, advice) {
		t.Errorf("of two texts: got %s", o.stderr)
	}
}

// TestInfo_NamesDatasetOfIndexDirectory: if info opens the directory of a separate index, the error
// names the dataset of that index.
func TestInfo_NamesDatasetOfIndexDirectory(t *testing.T) {
	dir, home := twins(t), t.TempDir()
	t.Chdir(filepath.Dir(home))
	for _, name := range []string{"", "#some"} {
		ok(t, "index", dir+name, "--index-url", filepath.Base(home))
		want := "this is the index of file://" + dir + name + ": open file://" + dir + name + ",index=file://" + home + "\n"
		if o := millrace(t, nil, "info", home+name); o.code != exitFailure || !strings.Contains(o.stderr, want) {
			t.Errorf("got exit code %d and %s, want %q", o.code, o.stderr, want)
		}
		for _, address := range []string{"file://" + dir + name + ",index=file://" + home, dir + name + ",index=" + filepath.Base(home), "FILE://" + dir + name + ",index=" + home} {
			ok(t, "info", address)
		}
	}
	if o := millrace(t, nil, "index", home); o.code != exitUsage || !strings.Contains(o.stderr, "belongs to file://"+dir) {
		t.Errorf("got exit code %d and %s, want the owner", o.code, o.stderr)
	}
}

// TestIndex_AsksForTokenOptions: index asks for the options of token files before it indexes them.
// A second index reuses them. info shows a token that is too large for the type.
func TestIndex_AsksForTokenOptions(t *testing.T) {
	dir := t.TempDir()
	text := make([]byte, 0, 4000)
	for i := range 2000 {
		text = binary.LittleEndian.AppendUint16(text, uint16(25*i))
	}
	for _, name := range []string{"a.bin", "b.bin"} {
		put(t, filepath.Join(dir, "flat", name), string(text))
	}
	flat := filepath.Join(dir, "flat")
	put(t, filepath.Join(flat, "meta.pkl"), "as nanoGPT has it")
	for range 2 {
		o := millrace(t, nil, "index", flat)
		if command := "\n  millrace index file://" + flat + " --sequence-length 1024 --dtype uint16  # if these are tokens"; o.code != exitUsage || !strings.Contains(o.stderr, command) || len(o.stderr) > 600 {
			t.Errorf("got exit code %d and %s, want %q", o.code, o.stderr, command)
		}
		put(t, filepath.Join(flat, "vocab.txt"), "beside them")
		if o := millrace(t, nil, "index", flat); !strings.Contains(o.stderr, " --sequence-length 1024 --dtype uint16  # if these are tokens") {
			t.Errorf("beside a text: got %s", o.stderr)
		}
		if err := os.Remove(filepath.Join(flat, "vocab.txt")); err != nil {
			t.Fatal(err)
		}
	}
	if o := millrace(t, nil, "index", flat, "--sequence-length", "0"); o.code != exitUsage || !strings.Contains(o.stderr, `--sequence-length "0": must be a whole number from 1 to`) {
		t.Errorf("got exit code %d and %s", o.code, o.stderr)
	}
	const item = "128 tokens of <u2 and the next one; the largest token at the beginning is 48000\n"
	first := ok(t, "index", flat, "--sequence-length", "128", "--dtype", "uint16")
	again := ok(t, "index", flat)
	if !strings.Contains(first.stdout, "each sample is "+item) || !strings.Contains(again.stdout, "nothing has changed") || !strings.Contains(again.stdout, "as the index that was here: --sequence-length 128 --dtype '<u2'") {
		t.Errorf("got %s, and then %s", first.stdout, again.stdout)
	}
	if o := ok(t, "info", flat); !strings.Contains(o.stdout, item) {
		t.Errorf("got %s, want %q", o.stdout, item)
	}
	if o := ok(t, "index", flat, "--sequence-length", "64", "--dtype", "uint32"); !strings.Contains(o.stdout, "64 tokens of <u4 and the next one; the largest token at the beginning is 3147414400\n") {
		t.Errorf("of the wrong type: got %s", o.stdout)
	}
	if err := os.Rename(filepath.Join(flat, "a.bin"), filepath.Join(flat, "a.tar")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(flat, "b.bin")); err != nil {
		t.Fatal(err)
	}
	if o := millrace(t, nil, "index", flat); strings.Contains(o.stderr, "sequence length") {
		t.Errorf("where no token file lies any more: got %s", o.stderr)
	}
}

// put writes a file, and makes its directories.
func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPack_SelectsFilesByMatch: --match selects the files to pack. Without it, pack lists the
// packed files by extension.
func TestPack_SelectsFilesByMatch(t *testing.T) {
	from := t.TempDir()
	for _, name := range []string{"cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/notes.txt"} {
		put(t, filepath.Join(from, name), name)
	}
	if o := ok(t, "pack", from, filepath.Join(t.TempDir(), "all")); !strings.Contains(o.stdout, "leaves some out: 3 jpg, 1 txt\n") {
		t.Errorf("got %s, want the files by extension", o.stdout)
	}
	if o := ok(t, "pack", from, filepath.Join(t.TempDir(), "pictures"), "--match", "*.jpg", "--label-from-directory"); !strings.Contains(o.stdout, "as 3 samples") || strings.Contains(o.stdout, "leaves some out") {
		t.Errorf("got %s, want the pictures", o.stdout)
	}
	if o := millrace(t, nil, "pack", from, t.TempDir(), "--match", "["); o.code != exitUsage {
		t.Errorf("got exit code %d: %s", o.code, o.stderr)
	}
}

// TestIndex_SuggestsIndexURLForReadOnlyLocation: a file at the path of the index's directory makes
// the location read-only, even for root.
func TestIndex_SuggestsIndexURLForReadOnlyLocation(t *testing.T) {
	dir := twins(t)
	if err := os.WriteFile(filepath.Join(dir, ".millrace"), nil, 0o444); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	for _, more := range [][]string{nil, {"--single-writer"}} {
		o := millrace(t, nil, append([]string{"index", dir}, more...)...)
		if o.code != exitStore || !strings.Contains(o.stderr, "is read-only") || !strings.Contains(o.stderr, "set --index-url or") || strings.Contains(o.stderr, "--single-writer") {
			t.Errorf("%q: got exit code %d, want %d and the cure: %s", more, o.code, exitStore, o.stderr)
		}
	}
	home := t.TempDir()
	ok(t, "index", dir, "--index-url", home)
	ok(t, "verify", dir+",index="+home)
	if after := tree(t, dir); !slices.Equal(after, before) {
		t.Errorf("beside the shards: got %q, want %q", after, before)
	}
}
