package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cmd/internal/garbage"
)

// quarantined runs quarantine, and returns the digest and "key|reason" of each sample in its
// output.
func quarantined(t *testing.T, args ...string) (digest string, samples []string) {
	t.Helper()
	var rep quarantineReport
	if err := json.Unmarshal([]byte(ok(t, append(args, "--json")...).stdout), &rep); err != nil {
		t.Fatal(err)
	}
	for _, b := range rep.Samples {
		samples = append(samples, b.Key+"|"+b.Reason)
	}
	return rep.Digest, samples
}

func TestQuarantine_ReadsKeysFromFlagsAndFile(t *testing.T) {
	dir := shards(t)
	list := filepath.Join(t.TempDir(), "bad.txt")
	if err := os.WriteFile(list, []byte("f007\tblack\r\nf003\n\nf040\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	digest, got := quarantined(t, "quarantine", dir, "--keys", list, "--key", "f041", "--key", "f042", "--reason", "odd")
	if want := []string{"f003|odd", "f007|black", "f040|odd", "f041|odd", "f042|odd"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if again, _ := quarantined(t, "quarantine", dir, "--key", "f042", "--key", "f041", "--keys", list, "--reason", "odd"); again != digest {
		t.Errorf("in another order: got %s, want %s", again, digest)
	}
	url := gatewayFor(t, dir)
	if o := ok(t, "fetch", url, "--quarantine", digest); !strings.Contains(o.stdout, "every position came exactly once") {
		t.Errorf("got %s", o.stdout)
	}
	for _, args := range [][]string{{"--key", "none"}, {"--keys", filepath.Join(t.TempDir(), "none")}} {
		if o := millrace(t, nil, append([]string{"quarantine", dir}, args...)...); o.code == exitOK {
			t.Errorf("%v: got exit code 0", args)
		}
	}
	if o := millrace(t, nil, "quarantine", dir); o.code != exitUsage {
		t.Errorf("without samples: got exit code %d, want %d", o.code, exitUsage)
	}
}

// twins writes two tars with the same keys, as two runs of img2dataset do.
func twins(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, shard := range []string{"00000.tar", "00001.tar"} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := range 3 {
			text := fmt.Sprint(shard, i)
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%09d.txt", i), Size: int64(len(text)), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, shard), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestQuarantine_KeysInSeveralShards(t *testing.T) {
	dir := twins(t)
	if o := ok(t, "index", dir); !strings.Contains(o.stdout, "3 keys in more than one shard, such as 00000000") {
		t.Errorf("got %s", o.stdout)
	}
	const key = "000000001"
	o := millrace(t, nil, "quarantine", dir, "--key", key)
	if o.code != exitFailure || !strings.Contains(o.stderr, `"00000.tar" "00001.tar"`) || !strings.Contains(o.stderr, "--shard") {
		t.Errorf("without a shard: got exit code %d: %s", o.code, o.stderr)
	}
	if o := millrace(t, nil, "quarantine", dir, "--key", key, "--shard", "2.tar"); o.code != exitNotFound || !strings.Contains(o.stderr, "no sample of shard 2.tar has the key") {
		t.Errorf("another shard: got exit code %d: %s", o.code, o.stderr)
	}
	if o := millrace(t, nil, "quarantine", dir, "--verify", "--shard", "00001.tar"); o.code != exitUsage {
		t.Errorf("--shard without --key: got exit code %d", o.code)
	}
	list := filepath.Join(t.TempDir(), "bad.txt")
	if err := os.WriteFile(list, []byte(key+"\t\t00001.tar\n"+key+"\tblack\t00000.tar\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	digest, got := quarantined(t, "quarantine", dir, "--keys", list, "--reason", "odd")
	if want := []string{key + "|black", key + "|odd"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v in stored order", got, want)
	}
	if one, _ := quarantined(t, "quarantine", dir, "--key", key, "--shard", "00001.tar"); one == digest {
		t.Error("one sample and two have the same digest")
	}
}

// TestQuarantine_FindsDamagedSamples changes a byte of one sample.
func TestQuarantine_FindsDamagedSamples(t *testing.T) {
	dir := shards(t)
	if o := ok(t, "quarantine", dir, "--verify"); o.stdout != "" || !strings.Contains(o.stderr, "nothing to quarantine") {
		t.Errorf("sound data: got %q and %q", o.stdout, o.stderr)
	}
	all, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil || len(all) == 0 {
		t.Fatalf("got %v, %v", all, err)
	}
	b, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(all[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, bytes.Repeat([]byte{9}, 6300))
	if at < 0 {
		t.Fatal("f009 is not in the first shard")
	}
	b[at+100] ^= 1
	if err := os.WriteFile(all[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(all[0], info.ModTime(), info.ModTime()); err != nil { // so that the store does not notice a new version
		t.Fatal(err)
	}
	if _, got := quarantined(t, "quarantine", dir, "--verify"); len(got) != 1 || !strings.HasPrefix(got[0], "f009|") {
		t.Errorf("got %v, want f009", got)
	}
	later := info.ModTime().Add(time.Second)
	if err := os.Chtimes(all[0], later, later); err != nil { // so that gateways read nothing of it
		t.Fatal(err)
	}
	if _, got := quarantined(t, "quarantine", dir, "--verify"); len(got) < 2 || slices.ContainsFunc(got, func(one string) bool { return !strings.HasSuffix(one, "|changed") }) {
		t.Errorf("got %v, want all samples of the changed shard", got)
	}
}

func TestSubset_StoresEqualSplitsOnce(t *testing.T) {
	dir := shards(t)
	cut := func(args ...string) subsetReport {
		t.Helper()
		var rep subsetReport
		if err := json.Unmarshal([]byte(ok(t, append([]string{"subset", dir, "--json", "--into"}, args...)...).stdout), &rep); err != nil {
			t.Fatal(err)
		}
		return rep
	}
	first, again, other := cut("a=1,b=1"), cut("a=1,b=1"), cut("a=1,b=1", "--salt", "x")
	if !first.New || again.New || again.Digest != first.Digest || other.Digest == first.Digest || other.Default != first.Digest {
		t.Errorf("got %+v, %+v and %+v", first, again, other)
	}
	if n := first.Subsets[0].Samples + first.Subsets[1].Samples; n != 50 {
		t.Errorf("got %d samples, want 50", n)
	}
	if o := ok(t, "subset", dir, "--into", "a=1,b=1", "--salt", "x"); !strings.Contains(o.stdout, "the default split stays "+first.Digest) {
		t.Errorf("got %s", o.stdout)
	}
	url := gatewayFor(t, dir)
	for _, name := range []string{"a", other.Digest + ":b"} {
		if o := ok(t, "fetch", url, "--subset", name); !strings.Contains(o.stdout, "every sample came exactly once") {
			t.Errorf("%s: got %s", name, o.stdout)
		}
	}
	if o := millrace(t, nil, "subset", dir); o.code != exitUsage {
		t.Errorf("without a split: got exit code %d, want %d", o.code, exitUsage)
	}
}

// TestGC_DryRunRemovesNothing: a dry run lists the objects that gc then removes. Objects of the
// current generation are kept.
func TestGC_DryRunRemovesNothing(t *testing.T) {
	dir := shards(t)
	ok(t, "subset", dir, "--into", "a=1,b=1")
	ok(t, "index", dir, "--seed", "1")
	ok(t, "subset", dir, "--into", "a=1,b=1")
	err := filepath.WalkDir(filepath.Join(dir, ".millrace"), func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)))
	})
	if err != nil {
		t.Fatal(err)
	}
	left := func() (n int) {
		for _, pattern := range []string{"index/*", "segment/*", "binding/*", "subset/*"} {
			found, _ := filepath.Glob(filepath.Join(dir, ".millrace", pattern))
			n += len(found)
		}
		return n
	}
	if got := left(); got != 9 {
		t.Fatalf("got %d objects before, want two generations of four, and a segment of both", got)
	}
	shown := ok(t, "gc", dir, "--grace", "1m").stdout
	for _, want := range []string{"kept: the pointer names it", "unneeded: was current until", "would remove .millrace/index/", ": its generation", "kept 2 objects of subset", "of the current generation", "would remove 4 objects, "} {
		if !strings.Contains(shown, want) {
			t.Errorf("dry run: got\n%s\nwant %q in it", shown, want)
		}
	}
	if got := left(); got != 9 {
		t.Errorf("got %d objects after the dry run, want all 9", got)
	}
	removed := ok(t, "gc", dir, "--grace", "1m", "--yes").stdout
	if got := left(); got != 5 || removed != strings.ReplaceAll(shown, "would remove", "removed") {
		t.Errorf("got %d objects left and\n%s\nwant 5 and what was shown", got, removed)
	}
	var rep garbage.Report
	if err := json.Unmarshal([]byte(ok(t, "gc", dir, "--grace", "1m", "--yes", "--json").stdout), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.DryRun || len(rep.Removed) != 0 || len(rep.Generations) != 1 || rep.Generations[0].Objects != 5 || rep.Generations[0].Until != nil || len(rep.Kept) != 1 || rep.Kept[0].Objects != 2 {
		t.Errorf("again: got %+v, want nothing left to remove", rep)
	}
	ok(t, "fetch", gatewayFor(t, dir), "--subset", "a")
}

// TestSubset_ByShards selects the shards of two splits by name, and trains on one split.
func TestSubset_ByShards(t *testing.T) {
	dir := twins(t)
	for from, to := range map[string]string{"00000.tar": "train-0.tar", "00001.tar": "val-0.tar"} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, "index", dir, "--split", "all")
	o := ok(t, "subset", dir, "--into", "val=val-*,rest=*")
	if !strings.Contains(o.stdout, "val: 3 samples\n  rest: 3 samples\n") {
		t.Errorf("got %s", o.stdout)
	}
	if o := ok(t, "subset", dir, "--into", "val=val-*,rest=*", "--json"); !strings.Contains(o.stdout, `"match": "val-*"`) || strings.Contains(o.stdout, `"part"`) {
		t.Errorf("got %s", o.stdout)
	}
	if o := ok(t, "subset", "list", dir); !strings.Contains(o.stdout, "val=val-*,rest=*") {
		t.Errorf("got %s", o.stdout)
	}
	if o := ok(t, "fetch", gatewayFor(t, dir), "--subset", "val"); !strings.Contains(o.stdout, "3 samples") {
		t.Errorf("got %s", o.stdout)
	}
	if o := millrace(t, nil, "subset", dir, "--into", "val=val-*,a=a-*"); o.code == exitOK || !strings.Contains(o.stderr, `no pattern matches the shard "train-0.tar"`) {
		t.Errorf("got exit code %d: %s", o.code, o.stderr)
	}
}

// TestSubset_Keys stores the samples that a file lists, and reads them through a gateway.
func TestSubset_Keys(t *testing.T) {
	dir := shards(t)
	list := filepath.Join(t.TempDir(), "train.txt")
	write := func(text string) {
		if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("f007\r\nf003\n\nf040\nf003\n")
	o := ok(t, "subset", dir, "--keys", list, "--json")
	var rep subsetReport
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Subsets) != 2 || rep.Subsets[0].Name != "listed" || rep.Subsets[0].Samples != 3 || rep.Default != "" || !rep.New {
		t.Errorf("got %+v", rep)
	}
	if !strings.Contains(o.stderr, "1 sample is named again") {
		t.Errorf("got stderr %s", o.stderr)
	}
	write("f003\nf007\nf040\n")
	if o := ok(t, "subset", dir, "--keys", list); !strings.Contains(o.stdout, "has these subsets already") || !strings.Contains(o.stdout, rep.Digest) {
		t.Errorf("in another order: got %s", o.stdout)
	}
	if o := ok(t, "subset", "list", dir); !strings.Contains(o.stdout, "listed") {
		t.Errorf("list: got %s", o.stdout)
	}
	url := gatewayFor(t, dir)
	if o := ok(t, "fetch", url, "--subset", rep.Digest+":listed"); !strings.Contains(o.stdout, "every sample came exactly once") {
		t.Errorf("got %s", o.stdout)
	}
	write("f003\nnone\n")
	if o := millrace(t, nil, "subset", dir, "--keys", list); o.code != exitFailure || !strings.Contains(o.stderr, `no sample has 1 of 2 keys: "none"`) {
		t.Errorf("an unknown key: got exit code %d: %s", o.code, o.stderr)
	}
	for _, args := range [][]string{{}, {"--keys", list, "--into", "a=1"}, {"--keys", list, "--salt", "x"}} {
		if o := millrace(t, nil, append([]string{"subset", dir}, args...)...); o.code != exitUsage {
			t.Errorf("%v: got exit code %d, want %d", args, o.code, exitUsage)
		}
	}
}
