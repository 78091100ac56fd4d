//go:build linux

// Package release_test builds a release twice and uses it: the image as the root of a process, and
// the packages in separate roots. It requires root, dpkg, rpm and systemd-analyze
// (tools/packages.sh).
package release_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, "../..")) }

// TestRelease builds the release of this checkout twice, in different directories and environments,
// and compares every byte.
func TestRelease(t *testing.T) {
	one := release(t, "umask 022; TZ=UTC LC_ALL=C")
	two := release(t, "umask 077; TZ=Asia/Tokyo LC_ALL=C.UTF-8 GOFLAGS=-p=1")
	names := files(t, one)
	if other := files(t, two); !slices.Equal(names, other) {
		t.Fatalf("got the files %v and then %v", names, other)
	}
	for _, name := range names {
		if a, b := read(t, filepath.Join(one, name)), read(t, filepath.Join(two, name)); !bytes.Equal(a, b) {
			t.Errorf("%s: got %d bytes and then %d others", name, len(a), len(b))
		}
	}
	command(t, one, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	if sums := strings.Count(string(read(t, filepath.Join(one, "SHA256SUMS"))), "\n"); sums != len(names)-1 {
		t.Errorf("got sums of %d files, want those of all %d others", sums, len(names)-1)
	}
	t.Run("archive", func(t *testing.T) { checkArchive(t, one) })
	t.Run("image", func(t *testing.T) { checkImage(t, one) })
	t.Run("deb", func(t *testing.T) { checkDeb(t, one) })
	t.Run("rpm", func(t *testing.T) { checkRPM(t, one) })
	t.Run("chart", func(t *testing.T) {
		out := command(t, one, harness.Installed(t, "helm"), "template", "gateways", only(t, one, "millrace-*.tgz"), "--values", "../deploy/helm/examples/s3.yaml")
		if !strings.Contains(out, "kind: StatefulSet") {
			t.Errorf("got %.300s, want the objects of the chart", out)
		}
	})
}

// release runs `make release-files` in a repository with a single commit of this checkout, and
// returns the output directory.
func release(t *testing.T, circumstances string) (dist string) {
	t.Helper()
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "millrace")
	git := func(args ...string) { command(t, "", "git", append([]string{"-C", dir}, args...)...) }
	command(t, "", "git", "init", "--quiet", dir)
	git("--work-tree="+tree, "add", "--all")
	command(t, dir, "sh", "-c", "GIT_AUTHOR_DATE=@1750000000 GIT_COMMITTER_DATE=@1750000000 git -c user.name=test -c user.email=test@example.org commit --quiet --message tree")
	git("reset", "--quiet", "--hard")
	command(t, dir, "sh", "-c", circumstances+" make release-files")
	return filepath.Join(dir, "dist")
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil || len(all) < 20 {
		t.Fatalf("got %d files, %v; want archives, packages, wheels and more", len(all), err)
	}
	for _, f := range all {
		names = append(names, f.Name())
	}
	return names
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// only returns the path of the single file that matches a pattern.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got %v, %v; want one file", pattern, found, err)
	}
	return found[0]
}

func checkArchive(t *testing.T, dist string) {
	t.Helper()
	dir := t.TempDir()
	command(t, dir, "tar", "-xzf", only(t, dist, "millrace-*-linux-amd64.tar.gz"))
	top := only(t, dir, "millrace-*-linux-amd64")
	said := command(t, top, "./millrace", "--version")
	if version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(top), "millrace-"), "-linux-amd64"); !strings.Contains(said, version) {
		t.Errorf("got %q, want the version %s", said, version)
	}
	for _, name := range []string{"LICENSE", "LICENSES-OF-MODULES", "README.md", "completions/millrace.bash", "man/man1/millrace-serve.1"} {
		read(t, filepath.Join(top, name))
	}
	for _, holder := range []string{"Leon Sorokin", "The Go Authors", "MinIO"} { // the page's charts, the language, a module
		if !strings.Contains(string(read(t, filepath.Join(top, "LICENSES-OF-MODULES"))), holder) {
			t.Errorf("LICENSES-OF-MODULES does not name %s", holder)
		}
	}
	command(t, top, "bash", "-n", "completions/millrace.bash")
	var parts struct{ Components []struct{ Purl string } }
	if err := json.Unmarshal(read(t, only(t, dist, "millrace-*-linux-amd64.cdx.json")), &parts); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(parts.Components), "pkg:golang/github.com/minio/minio-go/v7@") {
		t.Errorf("got %d parts of the program without minio-go", len(parts.Components))
	}
}

// place describes a blob in an OCI layout.
type place struct {
	Digest   string
	Platform struct{ Architecture string }
}

// blob decodes a JSON blob of an image's layout.
func blob(t *testing.T, layout string, p place, v any) {
	t.Helper()
	if err := json.Unmarshal(read(t, blobPath(layout, p)), v); err != nil {
		t.Fatal(err)
	}
}

func blobPath(layout string, p place) string {
	return filepath.Join(layout, "blobs", "sha256", strings.TrimPrefix(p.Digest, "sha256:"))
}

// checkImage unpacks the image's layers, and runs the program as the image specifies: as its user,
// with no other files.
func checkImage(t *testing.T, dist string) {
	layout, root := t.TempDir(), t.TempDir()
	command(t, layout, "tar", "-xf", only(t, dist, "*-image.oci.tar"))
	var index, both struct{ Manifests []place }
	if err := json.Unmarshal(read(t, filepath.Join(layout, "index.json")), &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("got %+v, %v; want one image", index, err)
	}
	blob(t, layout, index.Manifests[0], &both)
	at := slices.IndexFunc(both.Manifests, func(p place) bool { return p.Platform.Architecture == "amd64" })
	if len(both.Manifests) != 2 || at < 0 {
		t.Fatalf("got %+v, want images for amd64 and arm64", both)
	}
	var manifest struct {
		Config place
		Layers []place
	}
	var config struct {
		Config struct {
			User, WorkingDir string
			Env, Entrypoint  []string
		}
	}
	blob(t, layout, both.Manifests[at], &manifest)
	blob(t, layout, manifest.Config, &config)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, l := range manifest.Layers {
		command(t, root, "tar", "--numeric-owner", "-xpzf", blobPath(layout, l))
	}
	checkRoots(t, read(t, filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")))

	samples, _ := harness.Files(t, 64, 1000)
	command(t, "", "cp", "-r", samples, filepath.Join(root, "samples"))
	command(t, "", "chmod", "-R", "a+rX", filepath.Join(root, "samples"))
	inside := func(args ...string) (string, []string) {
		return "chroot", slices.Concat([]string{"--userspec=" + config.Config.User, root}, config.Config.Entrypoint, args)
	}
	name, args := inside("pack", "/samples", "/tmp/photos")
	command(t, "", name, args...)
	listen := harness.FreeAddress(t)
	_, args = inside("serve", "/tmp/photos", "--listen", listen)
	g := harness.Start(t, "image", "/usr/sbin/chroot", config.Config.Env, args...)
	g.Ready(t, harness.Answers("http://"+listen+"/readyz"))
	r, err := http.Get("http://" + listen + "/epoch/0/batch/0?batch_size=64")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || len(body) < 64_000 {
		t.Errorf("got %d with %d bytes, %v; want a batch of 64 samples", r.StatusCode, len(body), err)
	}
}

// checkRoots requires certificate authorities, which the program trusts in connections to a store.
func checkRoots(t *testing.T, text []byte) {
	t.Helper()
	pool, count := x509.NewCertPool(), 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		pool.AddCert(cert)
		count++
	}
	if count < 80 {
		t.Errorf("got %d authorities, want those that browsers trust, above a hundred", count)
	}
}

// newRoot creates a root directory that contains only a shell for the scripts of packages.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"bin", "usr/bin", "etc", "tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/rpm"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, "", "cp", "-L", "/bin/sh", filepath.Join(root, "bin/sh"))
	for word := range strings.FieldsSeq(command(t, "", "ldd", "/bin/sh")) {
		if strings.HasPrefix(word, "/") {
			command(t, "/", "cp", "-L", "--parents", "."+word, root)
		}
	}
	return root
}

// packaged lists files that a package installs at the paths that distributions use.
var packaged = []string{
	"usr/bin/millrace", "usr/lib/systemd/system/millrace.service", "usr/share/man/man1/millrace.1.gz", "usr/share/man/man1/millrace-serve.1.gz",
	"usr/share/bash-completion/completions/millrace", "usr/share/doc/millrace/LICENSES-OF-MODULES",
}

// checkInstalled runs the installed program, removes it, and requires that no file remains.
func checkInstalled(t *testing.T, root string, remove func()) {
	t.Helper()
	for _, name := range packaged {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.Size() == 0 || info.Mode().Perm()&0o022 != 0 || info.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("%s: got %v, %v; want it there for all to read and for root alone to write", name, info, err)
		}
	}
	if said := command(t, "", "chroot", root, "/usr/bin/millrace", "--version"); !strings.Contains(said, "millrace") {
		t.Errorf("got %q, want its version", said)
	}
	verifyUnit(t, root)
	remove()
	for _, name := range packaged {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			t.Errorf("%s: got it there after the package was removed", name)
		}
	}
}

func checkDeb(t *testing.T, dist string) {
	root := newRoot(t)
	dpkg := func(args ...string) string {
		return command(t, "", "dpkg", append([]string{"--root=" + root}, args...)...)
	}
	dpkg("--install", only(t, dist, "millrace_*_amd64.deb"))
	if said := dpkg("--status", "millrace"); !strings.Contains(said, "install ok installed") {
		t.Errorf("got %s, want it installed", said)
	}
	checkInstalled(t, root, func() { dpkg("--purge", "millrace") })
}

// checkRPM installs the package into a root with an empty package database. Nothing there provides
// the shell, so it ignores dependencies.
func checkRPM(t *testing.T, dist string) {
	root := newRoot(t)
	rpm := func(args ...string) string {
		return command(t, "", "rpm", append([]string{"--root=" + root}, args...)...)
	}
	rpm("--initdb")
	rpm("--install", "--nodeps", only(t, dist, "millrace-*.x86_64.rpm"))
	rpm("--verify", "--nodeps", "millrace")
	checkInstalled(t, root, func() { rpm("--erase", "millrace") })
}
