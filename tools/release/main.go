// Command release fills dist with the parts of a release: archives, Debian and RPM packages, an
// image, the chart, lists of modules, the notes, and the sums of all files, including wheels that
// are already in dist.
//
// usage: release ROOT        of a checkout without changes; two runs at one commit write the same bytes
//
//	release pin DOCKERFILE...   writes the digests of base images, as their registries have them
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 1 && args[0] == "pin":
		return pinImages(args[1:]...)
	case len(args) == 1:
		return makeAll(args[0])
	}
	return fmt.Errorf("expected ROOT or pin DOCKERFILE..., got %q", args)
}

// release holds the values that all parts of a release share.
type release struct {
	root    string    // the checkout
	work    string    // directory for intermediate files
	out     string    // dist
	commit  string    // commit of the checkout
	time    time.Time // time of the commit, and of every file
	version string    // without the v: 0.1.0

	programs []program
	papers   []file // files that accompany the program in each archive
}

func makeAll(root string) (err error) {
	r := &release{out: filepath.Join(root, "dist"), root: root}
	if r.work, err = os.MkdirTemp("", "millrace-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		make func() error
	}{
		{"commit", r.readCommit},
		{"programs", r.buildPrograms},
		{"papers", r.collectPapers},
		{"archives", r.writeArchives},
		{"packages", r.writePackages},
		{"image", r.writeImage},
		{"chart", r.writeChart},
		{"parts", r.writeParts},
		{"notes", r.writeNotes},
		{"sums", r.writeSums},
	} {
		start := time.Now()
		if err := step.make(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("release: %-9s %5.1f s\n", step.name, time.Since(start).Seconds())
	}
	return nil
}

// readCommit returns an error for a checkout with changes, because its commit would not reproduce
// the release.
func (r *release) readCommit() error {
	changes, err := r.output("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the checkout has changes that are in no commit:\n%s", changes)
	}
	said, err := r.output("git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(said, " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.commit, r.time = commit, time.Unix(n, 0).UTC()
	return nil
}

// output runs a program in the checkout and returns its standard output.
func (r *release) output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = r.root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
