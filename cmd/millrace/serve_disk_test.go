package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/datapath/diskcache"
)

func TestServe_RejectsInvalidDiskCache(t *testing.T) {
	data := shards(t)
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	c, err := diskcache.Open(diskcache.Config{Dir: other, MaxBytes: 1 << 20, Datasets: []string{"s3://bucket/mails"}})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Write(t.Context(), diskcache.Key{}, 0, nil) { // an empty chunk
		t.Fatal("got nothing kept")
	}
	c.Close()
	fresh := filepath.Join(t.TempDir(), "a", "b")
	for name, args := range map[string]struct {
		args []string
		want string // expected error; "": none
	}{
		"no directory":      {[]string{"--disk-cache-size", "1GiB"}, "requires disk-cache"},
		"tiny":              {[]string{"--disk-cache", fresh, "--disk-cache-size", "1KiB"}, "must be at least 1MiB"},
		"more than a disk":  {[]string{"--disk-cache", fresh, "--disk-cache-size", "1000PB"}, "bytes of the file system"},
		"somebody's":        {[]string{"--disk-cache", foreign, "--disk-cache-size", "1MiB"}, "nor empty"},
		"another dataset's": {[]string{"--disk-cache", other, "--disk-cache-size", "1MiB"}, "it contains chunks of s3://bucket/mails"},
		"a policy":          {[]string{"MILLRACE_CACHE_POLICY=fifo"}, "must be one of plan, lru"},
		"fits":              {[]string{"--disk-cache", fresh, "--disk-cache-size", "1MiB", "MILLRACE_CACHE_POLICY=lru"}, ""},
	} {
		for _, check := range []string{"--check", "--check=false"} {
			if args.want == "" && check != "--check" {
				continue // without --check it would serve
			}
			o := millrace(t, nil, append([]string{"serve", "--dataset", "d=" + data, check}, args.args...)...)
			switch {
			case args.want == "" && (o.code != exitOK || !strings.Contains(o.stdout, "disk-cache-size: 1MiB\n")):
				t.Errorf("%s %s: got %d %s%s, want 0 and the settings", name, check, o.code, o.stdout, o.stderr)
			case args.want != "" && (o.code != exitUsage || !strings.Contains(o.stderr, args.want)):
				t.Errorf("%s %s: got %d %s, want 2 and %q", name, check, o.code, o.stderr, args.want)
			}
		}
	}
	if _, err := os.Stat(filepath.Dir(fresh)); err == nil {
		t.Error("--check has made the directory")
	}
}

// TestServeCheck_WorksWhileDiskCacheIsInUse: --check works while a gateway uses the disk cache.
func TestServeCheck_WorksWhileDiskCacheIsInUse(t *testing.T) {
	data, dir := shards(t), t.TempDir()
	location, err := location.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	c, err := diskcache.Open(diskcache.Config{Dir: dir, MaxBytes: 1 << 20, Datasets: []string{location.String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	args := []string{"serve", "--dataset", data, "--disk-cache", dir, "--disk-cache-size", "1MiB"}
	ok(t, append(args, "--check")...)
	if o := millrace(t, nil, args...); o.code != exitUsage || !strings.Contains(o.stderr, "another process uses the directory") {
		t.Errorf("serve: got %d %s, want 2 and what to do", o.code, o.stderr)
	}
}

// TestServe_RejectsDiskCacheSmallerThanChunk: a disk cache into which no chunk fits is an error. It
// would only count rejected chunks, which also occur in normal operation.
func TestServe_RejectsDiskCacheSmallerThanChunk(t *testing.T) {
	data := filepath.Join(t.TempDir(), "out")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.bin"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, "pack", dir, data)
	ok(t, "index", data)
	disk := filepath.Join(t.TempDir(), "disk")
	o := millrace(t, nil, "serve", "--dataset", "big="+data, "--check", "--disk-cache", disk, "--disk-cache-size", "2MiB")
	if o.code != exitUsage || !strings.Contains(o.stderr, "--disk-cache-size: 2.0 MiB is too small: the largest chunk of big takes 3") {
		t.Errorf("got %d %s, want 2 and what is too small", o.code, o.stderr)
	}
	ok(t, "serve", "--dataset", "big="+data, "--check", "--disk-cache", disk, "--disk-cache-size", "4MiB")
}
